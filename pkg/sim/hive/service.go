package simhive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// service is one of the programs that a node runs, by its name in --services.
type service struct {
	name    string
	command string // what it is called after `service`
	aliases []string
	run     func() error
}

func (p *program) services() []service {
	own := p.settings.name()
	return []service{
		{name: "nats", run: p.runNATS},
		{name: "predastore", run: p.runStore},
		{name: "viperblock", run: p.runViperblock},
		{name: "daemon", command: own, run: p.runDaemon},
		{name: "awsgw", run: p.runGateway},
		{name: "vpcd", run: p.runVPC},
		{name: "ui", command: own + "-ui", aliases: []string{"ui", own + "ui"}, run: p.runUI},
	}
}

// serviceCommand has a command for each service, which starts it in the foreground. A name that this era has not prints
// the usage and is no failure.
func (p *program) serviceCommand() *cobra.Command {
	parent := &cobra.Command{Use: "service", Short: "Manage services"}
	for _, s := range p.services() {
		name := s.command
		if name == "" {
			name = s.name
		}
		c := &cobra.Command{Use: name, Aliases: s.aliases, Short: "Manage the " + name + " service"}
		c.AddCommand(
			p.command("start", "Start the "+name+" service", func() error { return p.startService(s) }),
			p.command("stop", "Stop the "+name+" service", func() error { return p.stopService(name) }),
			p.command(
				"status", "Get status of the "+name+" service",
				func() error { p.say("%s service status: ...", name); return nil },
			),
		)
		parent.AddCommand(c)
	}
	return parent
}

// startService runs a service until it is told to end. Many of them share one machine: each keeps small.
func (p *program) startService(s service) error {
	for _, name := range []string{"service " + s.name, "service " + s.command} {
		if err := p.injected(name); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(32 << 20)
	return s.run()
}

// stopService ends the service that wrote its pid file where services without a directory of their own do.
func (p *program) stopService(name string) error {
	p.say("Stopping %s service...", name)
	file := filepath.Join(p.pidDirectory(), name+".pid")
	text, err := os.ReadFile(file)
	if err == nil {
		var pid int
		if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			err = errors.Join(syscall.Kill(pid, syscall.SIGTERM), os.Remove(file))
		}
	}
	if err != nil {
		p.say("Error stopping %s service: %v", name, err)
		return exitError{code: 1}
	}
	p.say("%s service stopped", name)
	return nil
}

// failStart ends a service that could not be started, with the line that the real one prints.
func (p *program) failStart(name string, err error) error {
	p.say("Error starting %s service: %v", name, err)
	return exitError{code: 1}
}

// unset ends a service that lacks a setting: one line, and success.
func (p *program) unset(what string) error {
	p.say("%s is not set", what)
	return nil
}

// logf writes a line to the service's log.
func (p *program) logf(format string, args ...any) {
	fmt.Fprintf(p.stderr, "%s %s\n", time.Now().Format("2006/01/02 15:04:05"), fmt.Sprintf(format, args...))
}

// logInto makes a file the log from here on.
func (p *program) logInto(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err == nil {
		p.stderr = log
	}
	return err
}

// writePID puts the service's pid file into its directory. It stays there when the service ends.
func (p *program) writePID(directory, name string) error {
	if directory == "" {
		directory = p.pidDirectory()
	}
	err := os.MkdirAll(directory, 0o750)
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, name+".pid"), []byte(strconv.Itoa(os.Getpid())), 0o644)
	}
	if err == nil {
		return nil
	}
	if !p.settings.spx() {
		p.logf("ERROR Failed to write pid file err=%q", err)
		return nil
	}
	return fmt.Errorf("write pid file: %w", err)
}

func (p *program) pidDirectory() string {
	if directory := p.env["XDG_RUNTIME_DIR"]; directory != "" {
		return directory
	}
	if own := p.defaultLayout().DataDir; exists(own) {
		return own
	}
	return os.TempDir()
}

// untilTerminated waits for the signal to end, and then a moment: no service ends at once.
func (p *program) untilTerminated() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
}

// serveHTTP serves until the process ends.
func serveHTTP(listener net.Listener, handler http.Handler, log func(string, ...any)) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: discard()}
	if err := server.Serve(listener); err != nil {
		log("ERROR Server error error=%q", err)
	}
}

// listenTLS listens with a certificate from files.
func listenTLS(address, certFile, keyFile string) (net.Listener, error) {
	cert, errCert := os.ReadFile(certFile)
	key, errKey := os.ReadFile(keyFile)
	if err := errors.Join(errCert, errKey); err != nil {
		return nil, fmt.Errorf("load TLS cert: %w", firstOf(errCert, errKey))
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return serveTLS(listener, cert, key)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// withConfig runs a service with the configuration that it was told of. One that cannot be read ends it as if nothing
// were wrong, as does one that was not named; one that is not there is a panic of the real services, but of vpcd.
func (p *program) withConfig(name string, run func(config nodeConfig, text []byte) error) error {
	p.say("Starting %s service...", name)
	file := p.setting("config")
	if file == "" {
		return p.unset("Config file")
	}
	config, text, err := p.readConfig(file)
	if err != nil {
		p.say("Error loading config file: %v", err)
		return nil
	}
	if text == nil && name != "vpcd" {
		return exitError{code: 2, message: "panic: assignment to entry in nil map"}
	}
	return run(config, text)
}

// busOf is how a service of this node reaches NATS.
func (p *program) busOf(self nodeEntry, name string, topics []string, answer answering) (busOptions, error) {
	o := busOptions{
		address: dialTarget(self.NATS.Host), source: self.Host, token: self.NATS.ACL.Token, trust: p.systemTrust(),
		hello: hello{Name: name, Topics: topics}, answer: answer,
	}
	if self.NATS.CACert == "" {
		return o, nil
	}
	trust, err := fileTrust(self.NATS.CACert)
	if err == nil {
		o.trust = trust
	}
	return o, err
}

// dialTarget is where a service is reached that listens there, NATS on this node if nothing is said.
func dialTarget(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(natsPort))
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
