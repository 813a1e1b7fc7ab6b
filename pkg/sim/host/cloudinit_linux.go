package host

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

// defaultUser is the user of Debian's cloud image, made when the hypervisor names none.
const defaultUser = "debian"

// cloudConfig is what the simulator knows of cloud-config. Keys whose effect a simulated host cannot have are accepted
// and logged; any other key is an error, as a typing mistake in one would otherwise be found on real hardware only.
type cloudConfig struct {
	WriteFiles []writeFile `yaml:"write_files"`
	RunCmd     []yaml.Node `yaml:"runcmd"`
	BootCmd    []yaml.Node `yaml:"bootcmd"`

	Packages              []yaml.Node `yaml:"packages"`
	PackageUpdate         bool        `yaml:"package_update"`
	PackageUpgrade        bool        `yaml:"package_upgrade"`
	PackageRebootRequired bool        `yaml:"package_reboot_if_required"`

	Apt             yaml.Node `yaml:"apt"`
	DisableRoot     yaml.Node `yaml:"disable_root"`
	FinalMessage    string    `yaml:"final_message"`
	Growpart        yaml.Node `yaml:"growpart"`
	Keyboard        yaml.Node `yaml:"keyboard"`
	Locale          string    `yaml:"locale"`
	ManageEtcHosts  yaml.Node `yaml:"manage_etc_hosts"`
	NTP             yaml.Node `yaml:"ntp"`
	Output          yaml.Node `yaml:"output"`
	PreserveHost    bool      `yaml:"preserve_hostname"`
	ResizeRootFS    yaml.Node `yaml:"resize_rootfs"`
	SSHDeleteKeys   *bool     `yaml:"ssh_deletekeys"`
	SSHPasswordAuth yaml.Node `yaml:"ssh_pwauth"`
	Swap            yaml.Node `yaml:"swap"`
	Timezone        string    `yaml:"timezone"`
}

type writeFile struct {
	Path        string `yaml:"path"`
	Content     string `yaml:"content"`
	Owner       string `yaml:"owner"`
	Permissions string `yaml:"permissions"`
	Encoding    string `yaml:"encoding"`
	Append      bool   `yaml:"append"`
	Defer       bool   `yaml:"defer"`
}

// cloudInit is one run of cloud-init at one boot.
type cloudInit struct {
	g         *guest
	firstBoot bool // of this instance
	config    cloudConfig
	errors    []string
	log       bytes.Buffer
}

func newCloudInit(g *guest) *cloudInit { return &cloudInit{g: g} }

// instanceID follows PVE: it changes when the user data or the network data of the drive changes, and not when the
// vendor data does.
func (c *cloudInit) instanceID() string {
	cfg := c.g.cfg
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "%s\n%s\n%q\n", cfg.CloudInit.Hostname, cfg.CloudInit.User, cfg.CloudInit.SSHKeys)
	for _, nic := range cfg.NICs {
		_, _ = fmt.Fprintln(h, nic.Name, nic.MAC)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (c *cloudInit) failf(format string, a ...any) {
	msg := fmt.Sprintf(format, a...)
	c.errors = append(c.errors, msg)
	c.logf("error: %s", msg)
}

func (c *cloudInit) logf(format string, a ...any) {
	_, _ = fmt.Fprintf(&c.log, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, a...))
}

// write puts a file into the machine, making its directory.
func (c *cloudInit) write(path string, b []byte, mode fs.FileMode) error {
	p := c.g.path(path)
	if c.g.cfg.Kind == KindProcess {
		mode |= 0o200 // no root here that could write it again for a clone
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(p, b, mode); err != nil {
		return err
	}
	return os.Chmod(p, mode)
}

func (c *cloudInit) must(what string, err error) {
	if err != nil {
		c.failf("%s: %v", what, err)
	}
}

// initStage is what happens before SSH is up: instance, host name, user and keys. For a new instance the host keys that
// a cloned disk brought along are removed, as cloud-init does, so that the clone gets its own.
func (c *cloudInit) initStage() {
	c.must("what the installer left", c.leaveInstalled())
	if c.installed() {
		c.must("make the user", c.makeUser())
		return
	}
	id := c.instanceID()
	old, _ := os.ReadFile(c.g.path("/var/lib/cloud/data/instance-id"))
	c.firstBoot = strings.TrimSpace(string(old)) != id
	_ = os.Remove(c.g.path("/var/lib/cloud/instance/boot-finished"))
	c.must("write status", c.writeStatus("init"))
	c.logf("cloud-init (simulated) running 'init', instance %s", id)
	c.must("make the user", c.makeUser())
	if !c.firstBoot {
		return
	}
	c.readVendorData()
	if c.config.SSHDeleteKeys == nil || *c.config.SSHDeleteKeys {
		c.must("remove old host keys", c.removeHostKeys())
	}
	name := c.g.cfg.CloudInit.Hostname
	c.must("write host name", c.write("/etc/hostname", []byte(name+"\n"), 0o644))
	c.must(
		"write hosts",
		c.write(
			"/etc/hosts", []byte("127.0.0.1 localhost\n127.0.1.1 "+name+"\n::1 localhost ip6-localhost ip6-loopback\n"),
			0o644,
		),
	)
	if old, err := os.ReadFile(c.g.path("/etc/machine-id")); err != nil || len(bytes.TrimSpace(old)) == 0 {
		c.must("write machine id", c.write("/etc/machine-id", []byte(machineID(id)+"\n"), 0o444))
	}
	c.must("write instance id", c.write("/var/lib/cloud/data/instance-id", []byte(id+"\n"), 0o644))
}

// removeHostKeys removes what a cloned disk, or the real machine behind the overlay, has for host keys.
func (c *cloudInit) removeHostKeys() error {
	keys, err := filepath.Glob(c.g.path("/etc/ssh/ssh_host_*"))
	for _, key := range keys {
		err = errors.Join(err, os.Remove(key))
	}
	return err
}

// machineID is an id for /etc/machine-id, which would otherwise be the real machine's in all machines.
func machineID(instance string) string { return instance[:32] }

func (c *cloudInit) makeUser() error {
	ci := c.g.cfg.CloudInit
	name := ci.User
	if name == "" {
		name = defaultUser
	}
	if c.g.cfg.Kind == KindProcess {
		c.g.account = account{
			Name: name, UID: os.Getuid(), GID: os.Getgid(), Home: c.g.path("home/" + name), Shell: "/bin/bash",
		}
		if executable(c.g.account.Shell) != nil {
			c.g.account.Shell = "/bin/sh"
		}
		if err := os.MkdirAll(c.g.account.Home, 0o755); err != nil {
			return err
		}
	} else {
		a, err := createAccount(c.g.root, name)
		if err != nil {
			return err
		}
		c.g.account = a
	}
	if !c.firstBoot {
		return nil
	}
	if err := c.write(
		"/etc/sudoers.d/90-cloud-init-users", []byte(name+" ALL=(ALL) NOPASSWD:ALL\n"), 0o440,
	); err != nil {
		return err
	}
	dir := filepath.Join(c.g.account.Home, ".ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := chown(dir, c.g.account); err != nil {
		return err
	}
	path := filepath.Join(dir, "authorized_keys")
	var old []byte
	if name != "root" { // whose file shows through where the disk has none
		old, _ = os.ReadFile(path)
	}
	return writeOwned(path, []byte(addKeys(string(old), ci.SSHKeys)), 0o600, c.g.account)
}

// addKeys adds keys to a file of authorized keys that lacks them: what is there stays, as with cloud-init (ssh_util.py,
// update_authorized_keys).
func addKeys(old string, keys []string) string {
	lines := strings.FieldsFunc(old, func(r rune) bool { return r == '\n' })
	for _, key := range keys {
		if !slices.Contains(lines, key) {
			lines = append(lines, key)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// finalStage is what happens after SSH is up: the vendor data, then the files that say that it is done.
func (c *cloudInit) finalStage() {
	if c.firstBoot {
		c.applyVendorData()
	}
	c.logf("cloud-init (simulated) finished. Datasource DataSourceNoCloud [seed=/dev/sr0]")
	c.must(
		"write boot-finished",
		c.write("/var/lib/cloud/instance/boot-finished", []byte(time.Now().UTC().Format(time.RFC1123Z)+"\n"), 0o644),
	)
	if err := c.appendLog(); err != nil {
		c.failf("write log: %v", err)
	}
	// Last of all, as what it says is final.
	if err := c.writeResult(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "init: cloud-init:", err)
	}
}

// appendLog writes what was said to both of cloud-init's logs; the real one's cloud-init.log says more.
func (c *cloudInit) appendLog() error {
	return errors.Join(c.appendTo("/var/log/cloud-init-output.log"), c.appendTo("/var/log/cloud-init.log"))
}

func (c *cloudInit) appendTo(name string) error {
	p := c.g.path(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if c.firstBoot {
		// The overlay may show the log of a real machine that was itself made by cloud-init.
		err = f.Truncate(0)
	}
	_, werr := f.Write(c.log.Bytes())
	return errors.Join(err, werr, f.Close())
}

// cloudResult is /run/cloud-init/result.json.
type cloudResult struct {
	V1 struct {
		DataSource string   `json:"datasource"`
		Errors     []string `json:"errors"`
	} `json:"v1"`
}

func (c *cloudInit) writeResult() error {
	var r cloudResult
	r.V1.DataSource = "DataSourceNoCloud [seed=/dev/sr0][dsmode=net]"
	r.V1.Errors = append([]string{}, c.errors...)
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := c.writeStatus(""); err != nil {
		return err
	}
	// Renamed into place: a reader must never see half of it.
	if err := c.write("/run/cloud-init/.result.json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(c.g.path("/run/cloud-init/.result.json"), c.g.path("/run/cloud-init/result.json"))
}

// writeStatus writes /run/cloud-init/status.json with the running stage, empty when done.
func (c *cloudInit) writeStatus(stage string) error {
	b, err := json.Marshal(map[string]any{"v1": map[string]any{
		"datasource": "DataSourceNoCloud [seed=/dev/sr0][dsmode=net]", "stage": stage,
		"errors": append([]string{}, c.errors...),
	}})
	if err != nil {
		return err
	}
	return c.write("/run/cloud-init/status.json", append(b, '\n'), 0o644)
}

// readVendorData reads what the vendor data asks for.
func (c *cloudInit) readVendorData() {
	data := c.g.cfg.CloudInit.VendorData
	if len(bytes.TrimSpace(data)) == 0 {
		return
	}
	if !bytes.HasPrefix(data, []byte("#cloud-config")) {
		c.failf("vendor data: the first line is not #cloud-config")
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c.config); err != nil && !errors.Is(err, io.EOF) {
		c.failf(
			"vendor data: %s",
			strings.ReplaceAll(err.Error(), "in type host.cloudConfig", "in the cloud-config that is simulated"),
		)
		c.config = cloudConfig{}
	}
}

// applyVendorData does what the vendor data asks for at the end.
func (c *cloudInit) applyVendorData() {
	for _, f := range c.config.WriteFiles {
		c.must("write_files "+f.Path, c.writeFile(f))
	}
	c.logPassive()
	for _, n := range c.config.RunCmd {
		c.runCmd(n)
	}
}

func (c *cloudInit) logPassive() {
	if c.config.PackageUpdate || c.config.PackageUpgrade {
		c.logf("package_update: not run, this is a simulated host")
	}
	for _, p := range c.config.Packages {
		c.logf("packages: %s: not installed, this is a simulated host", nodeText(p))
	}
	for _, n := range c.config.BootCmd {
		c.logf("bootcmd: not run, this is a simulated host: %s", nodeText(n))
	}
}

func nodeText(n yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	b, err := yaml.Marshal(&n)
	if err != nil {
		return fmt.Sprintf("line %d", n.Line)
	}
	return strings.TrimSpace(string(b))
}

func (c *cloudInit) writeFile(f writeFile) error {
	if !filepath.IsAbs(f.Path) {
		return errors.New("the path is not absolute")
	}
	b := []byte(f.Content)
	switch f.Encoding {
	case "", "text/plain":
	case "b64", "base64":
		var err error
		if b, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), "")); err != nil {
			return err
		}
	default:
		return fmt.Errorf("encoding %q is not simulated; use text or base64", f.Encoding)
	}
	mode := fs.FileMode(0o644)
	if f.Permissions != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(f.Permissions, "0o"), 8, 12)
		if err != nil {
			return fmt.Errorf("permissions %q are not an octal number", f.Permissions)
		}
		mode = fs.FileMode(n)
	}
	if f.Append {
		old, err := os.ReadFile(c.g.path(f.Path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		b = append(old, b...)
	}
	if err := c.write(f.Path, b, mode); err != nil {
		return err
	}
	return c.chown(f.Path, f.Owner)
}

// chown gives a file to "user" or "user:group"; without privileges everything is one user's.
func (c *cloudInit) chown(path, owner string) error {
	if owner == "" || c.g.cfg.Kind == KindProcess {
		return nil
	}
	user, group, hasGroup := strings.Cut(owner, ":")
	a, ok := lookupAccount(c.g.root, user)
	if !ok {
		return fmt.Errorf("unknown user %q", user)
	}
	if hasGroup {
		gid, ok := lookupGroup(c.g.root, group)
		if !ok {
			return fmt.Errorf("unknown group %q", group)
		}
		a.GID = gid
	}
	return os.Chown(c.g.path(path), a.UID, a.GID)
}

// runCmd runs one entry of runcmd if it does nothing but write markers, else logs it.
func (c *cloudInit) runCmd(n yaml.Node) {
	var line string
	var argv []string
	if n.Decode(&line) != nil && n.Decode(&argv) != nil {
		c.failf("runcmd: line %d is neither a string nor a list of strings", n.Line)
		return
	}
	cmds, reason := markerCommands(line, argv)
	if reason != "" {
		c.logf("runcmd: not run, this is a simulated host (%s): %s", reason, nodeText(n))
		return
	}
	for _, cmd := range cmds {
		if err := c.runMarker(cmd); err != nil {
			c.failf("runcmd: %s: %v", nodeText(n), err)
			return
		}
	}
	c.logf("runcmd: ran: %s", nodeText(n))
}

// runMarker runs a command that writes a marker, with its files where the machine has them.
func (c *cloudInit) runMarker(m markerCommand) error {
	env := c.g.baseEnv(c.g.rootAccount())
	path, err := lookPath(m.argv[0], loginPath)
	if err != nil {
		return err
	}
	argv := make([]string, len(m.argv))
	for i, a := range m.argv {
		if argv[i] = a; i > 0 && strings.HasPrefix(a, "/") && m.files {
			argv[i] = c.g.path(a)
		}
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	var out *os.File
	if m.target == "" {
		out, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	} else {
		flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if m.append {
			flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		out, err = os.OpenFile(c.g.path(m.target), flags, 0o644)
	}
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	_, end, err := c.g.procs.start(path, argv, &os.ProcAttr{
		Dir: c.g.root, Env: env, Files: []*os.File{in, out, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	if ws := <-end; ws.ExitStatus() != 0 {
		return fmt.Errorf("%s ended with status %d", m.argv[0], ws.ExitStatus())
	}
	return nil
}
