package pve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"hive-test/pkg/sim/sshd"
)

// startSSH opens a hypervisor's SSH server and returns its port.
func (s *Server) startSSH(node string, port int) (int, error) {
	l, err := listen(port)
	if err != nil {
		return 0, fmt.Errorf("open the SSH port of the simulated hypervisor %s: %w", node, err)
	}
	cfg := sshd.Config{
		HostKey:    s.files.hostKeys[node],
		Authorized: s.authorized,
		Exec: func(ctx context.Context, ses *sshd.Session) int {
			return s.runShell(ctx, node, ses)
		},
		SFTP: s.sftpHandlers(node),
		Log:  s.log,
	}
	s.wg.Go(func() {
		if err := sshd.Serve(s.ctx, l, cfg); err != nil {
			s.log.Error("a hypervisor's SSH server ended", "node", node, "error", err)
		}
	})
	return l.Addr().(*net.TCPAddr).Port, nil
}

// authorized lets the simulator's own key in, as any user: "root" is root, all others may use sudo.
func (s *Server) authorized(_ string, key ssh.PublicKey) (sshd.Login, bool) {
	return sshd.Login{}, bytes.Equal(key.Marshal(), s.files.clientKey.Marshal())
}

// shell is a login on a hypervisor. It knows the few programs that are run there and starts no process.
type shell struct {
	s    *Server
	node string
	root bool
}

func (s *Server) runShell(ctx context.Context, node string, ses *sshd.Session) int {
	s.touch()
	if ses.Command == "" {
		_, _ = io.WriteString(ses.Stderr, "the simulated hypervisor has no interactive shell: give a command\n")
		return 1
	}
	start := time.Now()
	sh := &shell{s: s, node: node, root: ses.User == "root"}
	rc := sh.script(ctx, ses.Command, ses.Stdin, ses.Stdout, ses.Stderr)
	s.journal.add(&journalEntry{
		Time: start, Method: methodSSH, Path: node, User: ses.User, Params: map[string]string{"command": ses.Command},
		Status:       rc,
		Milliseconds: time.Since(start).Milliseconds(),
	})
	return rc
}

// script runs shell text and returns its exit status.
func (sh *shell) script(ctx context.Context, text string, in io.Reader, out, errOut io.Writer) int {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "bash")
	if err != nil {
		fmt.Fprintf(errOut, "bash: -c: %v\n", err)
		return 2
	}
	home := "/root"
	if !sh.root {
		home = "/home/user"
	}
	denied := func(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }
	r, err := interp.New(
		interp.Dir("/"), interp.StdIO(in, out, errOut),
		interp.Env(expand.ListEnviron(
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+home,
		)),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
		interp.OpenHandler(func(_ context.Context, name string, _ int, _ os.FileMode) (io.ReadWriteCloser, error) {
			if name == "/dev/null" {
				return devNull{}, nil
			}
			return nil, denied("open", name)
		}),
		interp.ReadDirHandler2(func(_ context.Context, name string) ([]fs.DirEntry, error) {
			return nil, denied("open", name)
		}),
		interp.StatHandler(func(_ context.Context, name string, _ bool) (fs.FileInfo, error) {
			return nil, denied("stat", name)
		}),
		interp.AccessHandler(func(_ context.Context, name string, _ interp.AccessMode) error {
			return denied("access", name)
		}),
	)
	if err != nil {
		fmt.Fprintf(errOut, "bash: %v\n", err)
		return 1
	}
	err = r.Run(ctx, file)
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	if err != nil {
		fmt.Fprintf(errOut, "bash: %v\n", err)
		return 1
	}
	return 0
}

type devNull struct{}

func (devNull) Read([]byte) (int, error)    { return 0, io.EOF }
func (devNull) Write(p []byte) (int, error) { return len(p), nil }
func (devNull) Close() error                { return nil }

// stdio is where a program reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func (sh *shell) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	rc := sh.program(ctx, args, stdio{in: hc.Stdin, out: hc.Stdout, err: hc.Stderr})
	if rc == 0 {
		return nil
	}
	return interp.ExitStatus(uint8(rc))
}

// program runs one of the programs that a hypervisor has here. Anything else is not found.
func (sh *shell) program(ctx context.Context, args []string, std stdio) int {
	name := args[0]
	if dir := path.Dir(name); strings.Contains(name, "/") &&
		slices.Contains([]string{"/bin", "/usr/bin", "/usr/sbin", "/sbin"}, dir) {
		name = path.Base(name)
	}
	if rc, failed := sh.fault(ctx, append([]string{name}, args[1:]...), std); failed {
		return rc
	}
	switch name {
	case "bash", "sh":
		return sh.bash(ctx, args, std)
	case "sudo":
		return sh.sudo(ctx, args[1:], std)
	case "id":
		return sh.id(args[1:], std)
	case "tee":
		return sh.tee(args[1:], std)
	case "grep":
		return grep(args[1:], std)
	case "cut":
		return cut(args[1:], std)
	case "wc":
		return wc(args[1:], std)
	case "echo":
		fmt.Fprintln(std.out, strings.Join(args[1:], " "))
		return 0
	case "hostname":
		fmt.Fprintln(std.out, sh.node)
		return 0
	case "readlink":
		if len(args) != 2 || args[1] != "/etc/pve/local" {
			return 1
		}
		fmt.Fprintln(std.out, "nodes/"+sh.node)
		return 0
	case "pvesm", "qm", "pveum", "pvesh", "pvecm", "ha-manager":
		return sh.admin(ctx, append([]string{name}, args[1:]...), std)
	case "systemctl":
		return systemctl(args[1:], std)
	case "timedatectl":
		return sh.timedatectl(args[1:], std)
	}
	fmt.Fprintf(std.err, "bash: line 1: %s: command not found\n", args[0])
	return 127
}

// fault lets a command meet the fault that is made for it, if there is one.
func (sh *shell) fault(ctx context.Context, words []string, std stdio) (status int, failed bool) {
	f := sh.s.faults.take(methodSSH, "/nodes/"+sh.node+"/"+strings.Join(words, " "))
	if f == nil {
		return 0, false
	}
	sleep(ctx, time.Duration(f.Delay))
	if f.Status == 0 {
		return 0, false
	}
	fmt.Fprintln(std.err, f.Reason)
	return f.Status, true
}

// systemctl knows the services that hive-test names. They run as long as the hypervisor answers.
func systemctl(args []string, std stdio) int {
	if len(args) < 2 || args[0] != "status" {
		fmt.Fprintf(std.err, "Unknown command verb '%s'.\n", strings.Join(args, " "))
		return 1
	}
	for _, unit := range args[1:] {
		if !slices.Contains([]string{"pveproxy", "pvedaemon", "pvestatd", "ssh"}, unit) {
			fmt.Fprintf(std.err, "Unit %s.service could not be found.\n", unit)
			return 4
		}
		fmt.Fprintf(std.out, "● %s.service\n     Active: active (running)\n", unit)
	}
	return 0
}

// timedatectl set-ntp true sets the clock right, at once.
func (sh *shell) timedatectl(args []string, std stdio) int {
	switch {
	case strings.Join(args, " ") != "set-ntp true":
		fmt.Fprintf(std.err, "Unknown command verb '%s'.\n", strings.Join(args, " "))
		return 1
	case !sh.root:
		fmt.Fprintln(std.err, "Failed to set ntp: Interactive authentication required.")
		return 1
	}
	sh.s.skew.Store(0)
	return 0
}

func (sh *shell) bash(ctx context.Context, args []string, std stdio) int {
	if len(args) < 3 || args[1] != "-c" {
		fmt.Fprintln(std.err, "bash: the simulated hypervisor runs bash -c only")
		return 1
	}
	return sh.script(ctx, args[2], std.in, std.out, std.err)
}

func (sh *shell) sudo(ctx context.Context, args []string, std stdio) int {
	list := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		list = list || args[0] == "-l"
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(std.err, "usage: sudo [-n] [-l] command")
		return 1
	}
	if !sh.root && sh.s.withoutSudo(sh.node) {
		fmt.Fprintln(std.err, "sudo: a password is required")
		return 1
	}
	if list { // whether it may be run
		fmt.Fprintln(std.out, strings.Join(args, " "))
		return 0
	}
	as := &shell{s: sh.s, node: sh.node, root: true}
	return as.program(ctx, args, std)
}

func (sh *shell) id(args []string, std stdio) int {
	uid, user := "1000", "user"
	if sh.root {
		uid, user = "0", "root"
	}
	switch strings.Join(args, " ") {
	case "-u":
		fmt.Fprintln(std.out, uid)
	case "-un", "-nu", "-u -n":
		fmt.Fprintln(std.out, user)
	default:
		fmt.Fprintf(std.out, "uid=%s(%s) gid=%s(%s) groups=%s(%s)\n", uid, user, uid, user, uid, user)
	}
	return 0
}

// tee writes its input to snippet files and to its output.
func (sh *shell) tee(args []string, std stdio) int {
	b, err := io.ReadAll(io.LimitReader(orEmpty(std.in), snippetLimit))
	if err != nil {
		fmt.Fprintf(std.err, "tee: read error: %v\n", err)
		return 1
	}
	rc := 0
	for _, file := range args {
		if err := sh.s.writeSnippet(sh.node, file, b, sh.root); err != nil {
			text := err.Error() // the C library's words, which Go writes without their capital letter
			fmt.Fprintf(std.err, "tee: %s: %s\n", file, strings.ToUpper(text[:1])+text[1:])
			rc = 1
		}
	}
	_, _ = std.out.Write(b)
	return rc
}

func orEmpty(r io.Reader) io.Reader {
	if r == nil {
		return strings.NewReader("")
	}
	return r
}

func lines(r io.Reader, each func(string)) {
	sc := bufio.NewScanner(orEmpty(r))
	sc.Buffer(make([]byte, 64*kib), mib)
	for sc.Scan() {
		each(sc.Text())
	}
}

// grep prints the lines that contain a text; its status tells whether there was one.
func grep(args []string, std stdio) int {
	quiet := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		quiet = quiet || args[0] == "-q"
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(std.err, "usage: grep [-q] TEXT")
		return 2
	}
	rc := 1
	lines(std.in, func(l string) {
		if strings.Contains(l, args[0]) {
			rc = 0
			if !quiet {
				fmt.Fprintln(std.out, l)
			}
		}
	})
	return rc
}

// cut prints one field of each line: cut -d C -f N.
func cut(args []string, std stdio) int {
	delim, field := "\t", 1
	for i := 0; i < len(args); i++ {
		flag, val := args[i], ""
		if len(flag) > 2 {
			flag, val = flag[:2], flag[2:]
		} else if i+1 < len(args) {
			i++
			val = args[i]
		}
		switch flag {
		case "-d":
			delim = val
		case "-f":
			n, err := strconv.Atoi(val)
			if err != nil || n < 1 {
				fmt.Fprintf(std.err, "cut: invalid field value '%s'\n", val)
				return 1
			}
			field = n
		default:
			fmt.Fprintf(std.err, "cut: invalid option '%s'\n", flag)
			return 1
		}
	}
	lines(std.in, func(l string) {
		parts := strings.Split(l, delim)
		switch {
		case len(parts) == 1:
			fmt.Fprintln(std.out, l)
		case field <= len(parts):
			fmt.Fprintln(std.out, parts[field-1])
		default:
			fmt.Fprintln(std.out)
		}
	})
	return 0
}

func wc(args []string, std stdio) int {
	if strings.Join(args, " ") != "-l" {
		fmt.Fprintln(std.err, "usage: wc -l")
		return 1
	}
	n := 0
	lines(std.in, func(string) { n++ })
	fmt.Fprintln(std.out, n)
	return 0
}
