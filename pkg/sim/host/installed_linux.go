package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// What Ubuntu's installer for servers leaves in /etc/cloud: a source of its own, besides which cloud-init looks at no drive, and, after
// the first boot, a file by which it does not run at all. A clone of such a disk is nobody's until both are gone. (Read in the source:
// subiquity/models/subiquity.py.)
const (
	installerSource = "/etc/cloud/cloud.cfg.d/99-installer.cfg"
	cloudInitOff    = "/etc/cloud/cloud-init.disabled"

	// byInstaller is the first line of both here: the real machine's own, which a host may see, are not a host's.
	byInstaller = "# hive-sim's installer\n"
)

// installerConfig is the file installerSource.
type installerConfig struct {
	Sources    []string `yaml:"datasource_list,flow"`
	Datasource struct {
		None struct {
			UserData string `yaml:"userdata_raw"`
		} `yaml:"None"`
	} `yaml:"datasource"`
}

// installedUsers is what the installer's cloud-config may hold here.
type installedUsers struct {
	Users []struct {
		Name           string   `yaml:"name"`
		Shell          string   `yaml:"shell"`
		Sudo           string   `yaml:"sudo"`
		LockPassword   bool     `yaml:"lock_passwd"`
		AuthorizedKeys []string `yaml:"ssh_authorized_keys"`
	} `yaml:"users"`
}

// leaveInstalled writes what the installer leaves, at the first boot after it.
func (c *cloudInit) leaveInstalled() error {
	if len(c.g.cfg.Install) == 0 {
		return nil
	}
	c.firstBoot = true
	config := installerConfig{Sources: []string{"None"}}
	config.Datasource.None.UserData = string(c.g.cfg.Install)
	text, err := yaml.Marshal(config)
	return errors.Join(
		err, c.write(installerSource, append([]byte(byInstaller), text...), 0o600), c.write(cloudInitOff, []byte(byInstaller), 0o644),
		c.write("/etc/hostname", []byte("ubuntu\n"), 0o644), c.write("/etc/machine-id", []byte(machineID(c.instanceID())+"\n"), 0o444),
	)
}

// installed tells whether cloud-init heeds the installer alone, whose user is the machine's then.
func (c *cloudInit) installed() bool {
	if text := c.ofInstaller(installerSource); text != nil {
		c.must("the installer's user", c.useInstalled(text))
		return true
	}
	off := c.ofInstaller(cloudInitOff) != nil
	if off {
		c.logf("cloud-init is disabled by %s", cloudInitOff)
	}
	return off
}

// ofInstaller is a file that the installer has left; nil: there is none.
func (c *cloudInit) ofInstaller(name string) []byte {
	text, _ := os.ReadFile(c.g.path(name))
	if !bytes.HasPrefix(text, []byte(byInstaller)) {
		return nil
	}
	return text
}

// useInstalled takes user and keys from the installer's file, whatever the drive says.
func (c *cloudInit) useInstalled(text []byte) error {
	var config installerConfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	var in installedUsers
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(config.Datasource.None.UserData)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&in); err != nil {
		return err
	}
	if len(in.Users) != 1 || !validUser.MatchString(in.Users[0].Name) {
		return fmt.Errorf("the installer's cloud-config has %d users; one with a valid name is simulated", len(in.Users))
	}
	c.g.cfg.CloudInit.User, c.g.cfg.CloudInit.SSHKeys = in.Users[0].Name, in.Users[0].AuthorizedKeys
	return nil
}
