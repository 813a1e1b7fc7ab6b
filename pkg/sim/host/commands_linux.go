package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/sftp"
	"hive-test/pkg/remote"
)

// Main runs what IsGuest recognises and returns its exit status. args is os.Args. It does not return where it becomes
// another command. No other code may run before it that trusts the environment: as sudo it is set-uid root.
func Main(args []string) int {
	name := filepath.Base(args[0])
	if name == "sudo" {
		return runSudo(args)
	}
	// Set-uid is for sudo alone.
	if err := dropPrivileges(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	switch {
	case name == "cloud-init":
		return runCloudInit(args[1:], os.Stdout, os.Stderr)
	case name == "apt-get":
		return runAptGet(args[1:], os.Stdout, os.Stderr)
	case name == "journalctl":
		return runJournal(args[1:], os.Stdout, os.Stderr)
	case name == "hostname":
		fmt.Println(os.Getenv("SIM_HOST_NAME"))
		return 0
	case len(args) > 2 && args[2] == "init":
		return runInit()
	case len(args) > 2 && args[2] == "sftp":
		return runSFTP()
	}
	fmt.Fprintln(os.Stderr, "hive-sim host is started by the simulator only")
	return 2
}

func dropPrivileges() error {
	uid, gid := os.Getuid(), os.Getgid()
	if os.Geteuid() == uid && os.Getegid() == gid {
		return nil
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	return nil
}

// pipeEnds joins stdin and stdout.
type pipeEnds struct {
	io.Reader
	io.WriteCloser
}

func runSFTP() int {
	home := os.Getenv("HOME")
	srv, err := sftp.NewServer(pipeEnds{os.Stdin, os.Stdout}, sftp.WithServerWorkingDirectory(home))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sftp:", err)
		return 1
	}
	defer func() { _ = srv.Close() }()
	if err := srv.Serve(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "sftp:", err)
		return 1
	}
	return 0
}

// runCloudInit answers `cloud-init status [--wait] [--long] [--format json]`, with the exit status and words of version
// 22.4 (Debian 12): 0 for done, running and not run, 1 for error.
func runCloudInit(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-v") {
		_, _ = fmt.Fprintln(stdout, "/usr/bin/cloud-init 22.4.2 (simulated)")
		return 0
	}
	if len(args) == 0 || args[0] != "status" {
		_, _ = fmt.Fprintln(
			stderr,
			"usage: cloud-init status [-h] [--format {tabular,yaml,json}] [-l] [-w] (simulated: nothing else is)",
		)
		return 2
	}
	var wait, long, asJSON bool
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "--wait", "-w":
			wait = true
		case "--long", "-l":
			long = true
		case "--format=json":
			asJSON = true
		case "--format":
			if i++; i < len(args) && args[i] == "json" {
				asJSON = true
				continue
			}
			fallthrough
		default:
			_, _ = fmt.Fprintf(
				stderr, "cloud-init status: error: unrecognized arguments: %s\n",
				strings.Join(args[min(i, len(args)-1):], " "),
			)
			return 2
		}
	}
	st := readCloudStatus(os.Getenv(rootVariable))
	for wait && !st.final() {
		if !asJSON {
			_, _ = fmt.Fprint(stdout, ".")
		}
		time.Sleep(100 * time.Millisecond)
		st = readCloudStatus(os.Getenv(rootVariable))
		if st.final() && !asJSON {
			_, _ = fmt.Fprintln(stdout)
		}
	}
	st.print(stdout, long, asJSON)
	if st.Status == "error" {
		return 1
	}
	return 0
}

// runAptGet answers `apt-get [-q] [-y] [-o OPTION=VALUE] update|install PACKAGE...` and installs nothing, as
// cloud-init's packages are not installed either: a simulated host has what the real machine has.
func runAptGet(args []string, stdout, stderr io.Writer) int {
	var words []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-o" && i+1 < len(args):
			i++
		case arg == "-q" || arg == "-y":
		case strings.HasPrefix(arg, "-"):
			_, _ = fmt.Fprintf(stderr, "E: Command line option %q is not understood (simulated)\n", arg)
			return 100
		default:
			words = append(words, arg)
		}
	}
	switch {
	case os.Geteuid() != 0 && os.Getenv(rootVariable) == "" && os.Getenv("SUDO_USER") == "":
		_, _ = fmt.Fprintln(
			stderr, "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
		)
		return 100
	case len(words) == 1 && words[0] == "update":
		return 0
	case len(words) > 1 && words[0] == "install":
		for _, name := range words[1:] {
			_, _ = fmt.Fprintf(stdout, "%s: not installed, this is a simulated host\n", name)
		}
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "E: only update and install are simulated")
	return 100
}

type cloudStatus struct {
	Status     string   `json:"status"`
	DataSource string   `json:"datasource"`
	Errors     []string `json:"errors"`
}

func (s cloudStatus) final() bool { return s.Status == "done" || s.Status == "error" }

func readCloudStatus(root string) cloudStatus {
	st := cloudStatus{Status: "not run", Errors: []string{}}
	dir := filepath.Join("/", root, "run/cloud-init")
	if _, err := os.Stat(filepath.Join(dir, "status.json")); err == nil {
		st.Status = "running"
	}
	b, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return st
	}
	var r cloudResult
	if err := json.Unmarshal(b, &r); err != nil {
		return st
	}
	st.Status, st.DataSource, st.Errors = "done", r.V1.DataSource, r.V1.Errors
	if len(r.V1.Errors) > 0 {
		st.Status = "error"
	}
	return st
}

func (s cloudStatus) print(w io.Writer, long, asJSON bool) {
	if asJSON {
		b, _ := json.MarshalIndent(s, "", "  ")
		_, _ = fmt.Fprintln(w, string(b))
		return
	}
	_, _ = fmt.Fprintf(w, "status: %s\n", s.Status)
	if !long {
		return
	}
	detail := s.DataSource
	if len(s.Errors) > 0 {
		detail = strings.Join(s.Errors, "\n")
	}
	_, _ = fmt.Fprintf(w, "detail:\n%s\n", detail)
}

// sudoCommand is a parsed command line of sudo.
type sudoCommand struct {
	user    string
	login   bool // -i
	shell   bool // -s
	keepEnv bool // -E
	quiet   bool // a command that only checks or forgets credentials: -v, -k, -K
	env     []string
	argv    []string
}

func parseSudo(args []string) (sudoCommand, error) {
	c := sudoCommand{user: "root"}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg := args[0]
		args = args[1:]
		switch arg {
		case "--":
			return c, c.take(args)
		case "--user", "-u":
			if len(args) == 0 {
				return c, fmt.Errorf("option %s needs a user", arg)
			}
			c.user, args = args[0], args[1:]
		case "--non-interactive", "--set-home":
		case "--preserve-env":
			c.keepEnv = true
		case "--login":
			c.login = true
		default:
			if v, ok := strings.CutPrefix(arg, "--user="); ok {
				c.user = v
				continue
			}
			if strings.HasPrefix(arg, "--") {
				return c, fmt.Errorf("unrecognized option '%s' (simulated)", arg)
			}
			rest, err := c.short(arg[1:], args)
			if err != nil {
				return c, err
			}
			args = rest
		}
	}
	return c, c.take(args)
}

// short reads a cluster of one-letter options.
func (c *sudoCommand) short(letters string, args []string) ([]string, error) {
	for i, r := range letters {
		switch r {
		case 'n', 'H', 'S':
		case 'E':
			c.keepEnv = true
		case 'i':
			c.login = true
		case 's':
			c.shell = true
		case 'v', 'k', 'K':
			c.quiet = true
		case 'u':
			if value := letters[i+1:]; value != "" {
				c.user = value
				return args, nil
			}
			if len(args) == 0 {
				return nil, errors.New("option requires an argument -- 'u'")
			}
			c.user = args[0]
			return args[1:], nil
		default:
			return nil, fmt.Errorf("invalid option -- '%c' (simulated)", r)
		}
	}
	return args, nil
}

// take splits assignments from the command.
func (c *sudoCommand) take(args []string) error {
	for len(args) > 0 {
		name, _, ok := strings.Cut(args[0], "=")
		if !ok || name == "" || strings.ContainsAny(name, "/ ") {
			break
		}
		c.env = append(c.env, args[0])
		args = args[1:]
	}
	c.argv = args
	if len(args) == 0 && !c.login && !c.shell && !c.quiet {
		return errors.New("usage: sudo [-EHn] [-u user] [VAR=value] [-i | -s] [command [arg ...]]")
	}
	return nil
}

// runSudo becomes the command of a sudo command line.
func runSudo(args []string) int {
	c, err := parseSudo(args[1:])
	if err != nil {
		return sudoFail(err)
	}
	if root := os.Getenv(rootVariable); root != "" && os.Geteuid() == os.Getuid() {
		return sudoSame(c, root)
	}
	if err := insideMachine(); err != nil {
		return sudoFail(err)
	}
	caller, ok := lookupAccount("/", fmt.Sprint(os.Getuid()))
	if !ok {
		return sudoFail(fmt.Errorf("you do not exist in the passwd database"))
	}
	if caller.UID != 0 && !maySudo(caller.Name) {
		return sudoFail(errors.New("a password is required"))
	}
	if c.quiet && len(c.argv) == 0 {
		return 0
	}
	target, ok := lookupAccount("/", strings.TrimPrefix(c.user, "#"))
	if !ok {
		return sudoFail(fmt.Errorf("unknown user %s", c.user))
	}
	return c.become(caller, target)
}

func sudoFail(err error) int {
	fmt.Fprintln(os.Stderr, "sudo:", err)
	return 1
}

// insideMachine holds if process 1 is a machine's init: the program of which this one is a set-uid copy. The copy lies
// in a directory that only root can enter, so this is the second lock on the door.
func insideMachine() error {
	refused := errors.New("this works inside a simulated host only")
	if os.Geteuid() != 0 {
		return refused
	}
	b, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return refused
	}
	argv := strings.Split(string(b), "\x00")
	if len(argv) < 3 || argv[1] != "host" || argv[2] != "init" {
		return refused
	}
	one, err1 := os.Stat("/proc/1/exe")
	own, err2 := os.Stat("/proc/self/exe")
	if err1 != nil || err2 != nil || one.Size() != own.Size() {
		return refused
	}
	return nil
}

// maySudo looks for the line that cloud-init writes; passwords are not simulated.
func maySudo(user string) bool {
	files, _ := filepath.Glob("/etc/sudoers.d/*")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for line := range strings.Lines(string(b)) {
			fields := strings.Fields(line)
			if len(fields) > 1 && fields[0] == user && strings.Contains(line, "NOPASSWD:") {
				return true
			}
		}
	}
	return false
}

// become replaces this process by the command, as target. The environment is reset as Debian's sudoers does (env_reset,
// secure_path), or kept with -E except for PATH and who it is.
func (c sudoCommand) become(caller, target account) int {
	env := c.environ(caller, target)
	argv := c.command(target)
	path, err := lookPath(argv[0], envValue(env, "PATH"))
	if err != nil {
		return sudoFail(fmt.Errorf("%s: command not found", argv[0]))
	}
	if c.login {
		if err := os.Chdir(target.Home); err != nil {
			return sudoFail(fmt.Errorf("unable to change directory to %s: %w", target.Home, err))
		}
	}
	if err := syscall.Setgroups(groupsOf("/", target)); err != nil {
		return sudoFail(fmt.Errorf("set groups: %w", err))
	}
	if err := syscall.Setresgid(target.GID, target.GID, target.GID); err != nil {
		return sudoFail(fmt.Errorf("set group: %w", err))
	}
	if err := syscall.Setresuid(target.UID, target.UID, target.UID); err != nil {
		return sudoFail(fmt.Errorf("set user: %w", err))
	}
	return execInto(path, argv, env)
}

func execInto(path string, argv, env []string) int {
	err := syscall.Exec(path, argv, env)
	fmt.Fprintf(os.Stderr, "sudo: unable to execute %s: %v\n", path, err)
	if errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

func (c sudoCommand) command(target account) []string {
	if !c.login && !c.shell {
		return c.argv
	}
	argv := []string{target.Shell}
	if c.login {
		argv = append(argv, "-l")
	}
	if len(c.argv) > 0 {
		argv = append(argv, "-c", remote.Quote(c.argv...))
	}
	return argv
}

func (c sudoCommand) environ(caller, target account) []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		kept := c.keepEnv || slices.Contains([]string{"TERM", "LANG", "LANGUAGE", "COLORTERM", "DISPLAY"}, name) ||
			strings.HasPrefix(name, "LC_")
		if kept && !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL"}, name) &&
			!strings.HasPrefix(name, "SUDO_") && !strings.HasPrefix(name, "LD_") {
			env = append(env, e)
		}
	}
	env = append(env, c.env...)
	return append(env,
		"PATH="+loginPath, "HOME="+target.Home, "USER="+target.Name, "LOGNAME="+target.Name, "SHELL="+target.Shell,
		"SUDO_USER="+caller.Name, fmt.Sprintf("SUDO_UID=%d", caller.UID), fmt.Sprintf("SUDO_GID=%d", caller.GID),
		"SUDO_COMMAND="+strings.Join(c.argv, " "))
}

// sudoSame runs the command as the same user: machines of kind process have only one.
func sudoSame(c sudoCommand, root string) int {
	if c.quiet && len(c.argv) == 0 {
		return 0
	}
	shell := os.Getenv("SHELL")
	argv := c.command(account{Shell: shell})
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		reset := c.keepEnv || strings.HasPrefix(name, "HIVE_SIM_") || strings.HasPrefix(name, "LC_") ||
			slices.Contains([]string{"PATH", "TERM", "LANG", "TMPDIR", "SHELL"}, name)
		if reset && name != "HOME" && name != "USER" && name != "LOGNAME" {
			env = append(env, e)
		}
	}
	env = append(env, c.env...)
	env = append(env, "USER="+c.user, "LOGNAME="+c.user, "HOME="+filepath.Join(root, "root"),
		"SUDO_USER="+os.Getenv("USER"), fmt.Sprintf("SUDO_UID=%d", os.Getuid()), fmt.Sprintf("SUDO_GID=%d", os.Getgid()))
	path, err := lookPath(argv[0], envValue(env, "PATH"))
	if err != nil {
		return sudoFail(fmt.Errorf("%s: command not found", argv[0]))
	}
	return execInto(path, argv, env)
}
