package pve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// console is what a VM that has booted Ubuntu's installer shows at first: GRUB's command line. It is driven by the keyboard alone.
type console struct {
	line        string
	kernel      []string // the words of the command `linux`, nil if none was given
	initrd      bool
	commandLine bool // `c` has been pressed, which leaves the menu
	booted      bool
}

// installTime is how long the installer runs, without what it waits for.
const installTime = 100 * time.Millisecond

var seedArgument = regexp.MustCompile(`^ds=nocloud(?:-net)?;s=(http://\S+/)$`)

// boots tells whether there is a system for a VM to boot: disks that are all blank have none. (A VM without any disk boots, as if from
// the network.)
func (s *Server) boots(v *vm) bool {
	disks := s.disks(v)
	return len(disks) == 0 || slices.ContainsFunc(disks, func(vol *volume) bool { return !vol.Blank })
}

// disks are the volumes of a VM's disks.
func (s *Server) disks(v *vm) (list []*volume) {
	for _, k := range drives(v.Config) {
		if d := s.drive(k, v.Config[k]); !d.cdrom() {
			if vol := s.state.volume(v.Node, d.file()); vol != nil {
				list = append(list, vol)
			}
		}
	}
	return list
}

// hasInstaller tells whether Ubuntu's installer for servers is in one of a VM's CD drives.
func (s *Server) hasInstaller(v *vm) bool {
	return slices.ContainsFunc(drives(v.Config), func(k string) bool {
		name := path.Base(s.drive(k, v.Config[k]).file())
		return strings.HasPrefix(name, "ubuntu-") && strings.Contains(name, "-live-server-") && strings.HasSuffix(name, ".iso")
	})
}

// sendKey presses a key of a machine's keyboard. Only an installer listens to it.
func sendKey(s *Server, c *call) (any, error) {
	if err := noSkiplock(c); err != nil {
		return nil, err
	}
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	if !s.running(v) {
		return nil, failf("VM %d not running", c.vmid)
	}
	if v.console != nil && v.console.press(c.get("key")) {
		s.install(v)
	}
	return nil, nil
}

// press is one key; true: the installer starts.
func (k *console) press(key string) bool {
	text, known := keyText[key]
	if !known && len(key) == 1 {
		text, known = key, true
	}
	if shifted, ok := strings.CutPrefix(key, "shift-"); ok && len(shifted) == 1 && !known {
		text, known = strings.ToUpper(shifted), true
	}
	switch {
	case k.booted || !known:
		return false
	case !k.commandLine:
		k.commandLine = text == "c" // of the menu's keys the one that counts
		return false
	case text != "\n":
		k.line += text
		return false
	}
	line := k.line
	k.line = ""
	return k.command(line)
}

// keyText are QEMU's names of keys that are no letters or digits, as an American keyboard has them.
var keyText = map[string]string{
	"ret": "\n", "spc": " ", "minus": "-", "equal": "=", "bracket_left": "[", "bracket_right": "]", "semicolon": ";",
	"apostrophe": "'", "grave_accent": "`", "backslash": `\`, "comma": ",", "dot": ".", "slash": "/",
	"shift-minus": "_", "shift-equal": "+", "shift-semicolon": ":", "shift-apostrophe": `"`, "shift-comma": "<", "shift-dot": ">",
	"shift-slash": "?", "shift-backslash": "|", "shift-grave_accent": "~", "shift-1": "!", "shift-2": "@", "shift-3": "#",
	"shift-4": "$", "shift-5": "%", "shift-6": "^", "shift-7": "&", "shift-8": "*", "shift-9": "(", "shift-0": ")",
}

// command is one line of GRUB's.
func (k *console) command(line string) bool {
	words := grubWords(line)
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "linux":
		k.kernel = words[1:]
	case "initrd":
		k.initrd = k.kernel != nil && len(words) == 2 && words[1] == "/casper/initrd"
	case "boot":
		k.booted = k.initrd && k.kernel[0] == "/casper/vmlinuz"
	}
	return k.booted
}

// grubWords splits a line as GRUB does: single quotes keep what is between them, a semicolon outside of them ends the command.
func grubWords(line string) (words []string) {
	word, quoted, in := "", false, false
	end := func() {
		if in {
			words = append(words, word)
		}
		word, in = "", false
	}
	for _, c := range line {
		switch {
		case c == '\'':
			quoted, in = !quoted, true
		case c == ' ' && !quoted:
			end()
		case c == ';' && !quoted:
			end()
			return words
		default:
			word, in = word+string(c), true
		}
	}
	end()
	return words
}

// seed is where the installer asks for what it shall do; empty: it asks a person at the console, who is not there. Without the word
// autoinstall it would ask for a yes at least.
func (k *console) seed() string {
	if !slices.Contains(k.kernel, "autoinstall") {
		return ""
	}
	for _, word := range k.kernel {
		if m := seedArgument.FindStringSubmatch(word); m != nil {
			return m[1]
		}
	}
	return ""
}

// install runs the installer, and boots what it has installed. Whatever it does not like leaves it standing at its console, as a real
// one would; the simulator's log says why.
func (s *Server) install(v *vm) {
	id, node, seed := v.ID, v.Node, v.console.seed()
	s.wg.Go(func() {
		err := errors.New("it was not told where its answers are, and asks at its console")
		if seed != "" {
			err = s.installFrom(id, node, seed)
		}
		if err != nil {
			s.opt.Log.Warn("the installer stands still", "vm", id, "error", err)
		}
	})
}

func (s *Server) installFrom(id int, node, seed string) error {
	answers, err := fetchAnswers(s.ctx, seed)
	if err != nil {
		return err
	}
	if !sleep(s.ctx, installTime) {
		return s.ctx.Err()
	}
	s.mu.Lock()
	v := s.state.VMs[id]
	if v == nil || v.Node != node || !s.running(v) || v.console == nil {
		s.mu.Unlock()
		return nil // it was taken away meanwhile
	}
	n := s.state.node(node)
	spec, err := s.spec(&task{}, n, v)
	spec.Unbooted, spec.Install = false, answers.userData
	spec.Agent = spec.Agent && slices.Contains(answers.packages, "qemu-guest-agent")
	v.console, v.restarting = nil, true
	for _, disk := range s.disks(v) {
		disk.Blank = false
	}
	s.changed()
	s.mu.Unlock()
	if err == nil {
		err = s.opt.Machines.Stop(s.ctx, spec.ID)
	}
	if err == nil {
		err = s.opt.Machines.Start(s.ctx, spec)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.restarting = false
	return err
}

// answers are what the installer does.
type answers struct {
	packages []string
	userData []byte // cloud-config of the first boot
}

// autoinstall is what of the installer's answers is known here. Anything else is refused: a typing mistake would be found on real
// machines only.
type autoinstall struct {
	Version  int      `yaml:"version"`
	Packages []string `yaml:"packages"`
	SSH      struct {
		Server   bool `yaml:"install-server"`
		Password bool `yaml:"allow-pw"`
	} `yaml:"ssh"`
	Storage struct {
		Layout struct {
			Name string `yaml:"name"`
		} `yaml:"layout"`
	} `yaml:"storage"`
	UserData yaml.Node `yaml:"user-data"`
}

// fetchAnswers asks for both files that cloud-init wants of a seed.
func fetchAnswers(ctx context.Context, seed string) (answers, error) {
	if _, err := fetch(ctx, seed+"meta-data"); err != nil {
		return answers{}, err
	}
	text, err := fetch(ctx, seed+"user-data")
	if err != nil {
		return answers{}, err
	}
	return readAnswers(text)
}

func readAnswers(text []byte) (answers, error) {
	if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
		return answers{}, errors.New("user-data: the first line is not #cloud-config")
	}
	var in struct {
		Autoinstall *autoinstall `yaml:"autoinstall"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&in); err != nil {
		return answers{}, fmt.Errorf("user-data: %w", err)
	}
	switch a := in.Autoinstall; {
	case a == nil:
		return answers{}, errors.New("user-data: there is no autoinstall")
	case a.Version != 1:
		return answers{}, fmt.Errorf("user-data: autoinstall has version %d, not 1", a.Version)
	case !slices.Contains([]string{"direct", "lvm", "zfs"}, a.Storage.Layout.Name):
		return answers{}, fmt.Errorf("user-data: there is no layout %q", a.Storage.Layout.Name)
	case !a.SSH.Server:
		return answers{}, errors.New("user-data: there will be no SSH server")
	}
	userData, err := yaml.Marshal(&in.Autoinstall.UserData)
	return answers{packages: in.Autoinstall.Packages, userData: append([]byte("#cloud-config\n"), userData...)}, err
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, mib))
}
