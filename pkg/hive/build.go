package hive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// builtOn is how hive is built with build on nodes: on each, or once, on the first, whose build is then installed on
// the others. done is called when all have it.
func (c *Cluster) builtOn(
	ctx context.Context, build func(context.Context, Host) error,
) (install func(context.Context, Host) error, done func()) {
	if c.options.Build == BuildEach || len(c.hosts) == 1 {
		return build, func() {}
	}
	once := &buildOnce{c: c, build: build, first: c.leader()}
	chosen := c.nodesOf(StepInstall)
	if len(c.course.Only) > 0 && len(chosen) > 0 && !slices.Contains(chosen, once.first) {
		once.first = chosen[0] // what the leader has is not what was asked for now
	}
	once.builds = slices.Contains(chosen, once.first)
	once.built = sync.OnceValue(func() error { return build(ctx, once.first) })
	once.packed = sync.OnceValues(func() (string, error) { return once.pack(ctx) })
	once.brought = sync.OnceValues(func() (string, error) { return once.bring(ctx) })
	return once.install, func() { once.close(ctx) }
}

// buildOnce builds on one node, whose build the others get from it over the network that they share, or else through
// this machine.
type buildOnce struct {
	c      *Cluster
	build  func(context.Context, Host) error
	first  Host
	builds bool         // whether the first is to be built on; else it has been
	built  func() error // once

	packed  func() (sha256 string, err error) // once
	brought func() (path string, err error)   // once
	dir     string                            // of the release on this machine, if there is one
	shared  atomic.Bool                       // whether the first has admitted a key
}

func (b *buildOnce) install(ctx context.Context, host Host) error {
	if host == b.first {
		return b.built()
	}
	sum, err := b.packed()
	if err != nil {
		return err
	}
	b.c.info(StepInstall, host.Name(), "gets what was built on "+b.first.Name())
	err = b.pass(ctx, host, sum)
	if err == nil {
		return b.c.unpacked(ctx, host, sum)
	}
	if ctx.Err() != nil {
		return err
	}
	b.c.info(
		StepInstall, host.Name(), "does not get it from "+b.first.Name()+" itself, but through this machine: "+why(err),
	)
	path, err := b.brought()
	if err != nil {
		return err
	}
	return b.c.unpack(path, sum)(ctx, host)
}

// why is the first line of what a node script has printed before it failed, or else the error.
func why(err error) string {
	if exit, ok := errors.AsType[*remote.ExitError](err); ok {
		return cmp.Or(firstLine(exit.Result.Stderr), err.Error())
	}
	return err.Error()
}

// pack makes a release of what was built on the first node, and returns its SHA-256.
func (b *buildOnce) pack(ctx context.Context) (string, error) {
	none := fmt.Errorf("nothing to install: hive was not built on %s", b.first.Name())
	if b.builds && b.built() != nil {
		return "", none
	}
	result, err := b.c.script(ctx, b.first, "pack-build.sh", b.c.options.InstallTimeout, nil, nil)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok && !b.builds { // what it had is gone
		b.c.info(StepInstall, b.first.Name(),
			"has no build that others could get ("+firstLine(exit.Result.Stderr)+"): building")
		if b.built() != nil {
			return "", none
		}
		result, err = b.c.script(ctx, b.first, "pack-build.sh", b.c.options.InstallTimeout, nil, nil)
	}
	if err != nil {
		return "", fmt.Errorf("packing what was built on %s: %w", b.first.Name(), err)
	}
	return strings.TrimSpace(string(result.Stdout)), nil
}

// pass has host read the release from the first node: by a key that is made for it, and good for nothing else.
func (b *buildOnce) pass(ctx context.Context, host Host, sum string) error {
	key, err := b.c.script(ctx, host, "get-build.sh", shortTimeout, nil, nil)
	if err != nil {
		return err
	}
	b.shared.Store(true)
	way, err := b.c.script(ctx, b.first, "share-build.sh", shortTimeout,
		map[string]string{"HIVE_KEY": strings.TrimSpace(string(key.Stdout))}, nil)
	if err != nil {
		return err
	}
	fields := map[string][]string{}
	for line := range strings.Lines(string(way.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = append(fields[name], value)
	}
	if len(fields["key"]) == 0 {
		return fmt.Errorf("the host keys of %s are not in /etc/ssh", b.first.Name())
	}
	var addresses []string
	for _, address := range []netip.Addr{b.first.Node().Data, b.first.Node().Management} {
		if address.IsValid() {
			addresses = append(addresses, address.String())
		}
	}
	_, err = b.c.script(ctx, host, "get-build.sh", b.c.options.InstallTimeout, map[string]string{
		"HIVE_FROM": strings.Join(addresses, " "), "HIVE_FROM_USER": strings.Join(fields["user"], ""),
		"HIVE_FROM_PORT": strings.Join(fields["port"], ""),
		"HIVE_FROM_KEYS": strings.Join(fields["key"], "\n"), "HIVE_SHA256": sum,
	}, nil)
	return err
}

// bring copies the release from the first node to this machine, and returns its path.
func (b *buildOnce) bring(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "hive-test-built-")
	if err != nil {
		return "", err
	}
	b.dir = dir
	path := filepath.Join(dir, "built.tar.gz")
	return path, b.first.Download(ctx, remoteBuilt, path)
}

// close removes what bring has brought here, and admits the keys of others no longer. It is called after the last
// install.
func (b *buildOnce) close(ctx context.Context) {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
	if !b.shared.Load() {
		return
	}
	if _, err := b.c.script(context.WithoutCancel(ctx), b.first, "share-build.sh", logTimeout, nil, nil); err != nil {
		b.c.warn(StepInstall, b.first.Name(),
			"a key by which other nodes read what was built is left in ~/.ssh/authorized_keys for an hour: "+why(err))
	}
}

func firstLine(text []byte) string { return redacted(progress.FirstLine(string(text))) }

// builtHere builds hive on this machine, in a directory that done removes, and returns what installs it on a node.
func (c *Cluster) builtHere(ctx context.Context) (install func(context.Context, Host) error, done func(), err error) {
	dir, err := os.MkdirTemp("", "hive-test-build-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	release, sum, err := c.buildIn(ctx, dir)
	if err != nil {
		done()
		return nil, nil, err
	}
	return c.unpack(release, sum), done, nil
}

// buildIn runs the node scripts that build hive on this machine, with all that they write below dir. It returns the
// path of the release that they have made, and its SHA-256.
func (c *Cluster) buildIn(ctx context.Context, dir string) (release, sum string, err error) {
	vars := map[string]string{
		"HIVE_DIR": filepath.Join(dir, "hive"), "HIVE_SOURCE_DIR": filepath.Join(dir, "mulga", "hive"),
		"HIVE_QUICKINSTALL": "no", "HIVE_LAYOUT": LayoutDev, // whatever this machine itself has
		"HIVE_REPO": c.options.Repo, "HIVE_REF": c.options.Ref,
	}
	script := "install-git.sh"
	run := filepath.Join(dir, "hive", "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return "", "", err
	}
	if c.options.SourceDir != "" {
		source, err := c.newSourceTree()
		if err != nil {
			return "", "", err
		}
		defer source.close()
		archive, err := source.archive(source.tree.changeOf(nil))
		if err == nil {
			err = os.Rename(archive, filepath.Join(run, "source.tar.gz"))
		}
		if err != nil {
			return "", "", fmt.Errorf("packing hive's source: %w", err)
		}
		script = "install-source.sh"
		maps.Copy(vars, source.vars())
	}
	if _, err := c.here(ctx, dir, script, vars); err != nil {
		return "", "", err
	}
	sum, err = c.here(ctx, dir, "pack-build.sh", vars)
	return filepath.Join(run, "built.tar.gz"), strings.TrimSpace(sum), err
}

// here runs a node script on this machine and returns what it prints. Its home is dir: upstream's scripts make
// directories there.
func (c *Cluster) here(ctx context.Context, dir, name string, vars map[string]string) (string, error) {
	scripts, err := loadScripts(c.options.ScriptsDir)
	if err != nil {
		return "", err
	}
	exports, err := remote.Exports(vars)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.InstallTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", `eval "$(cat)"`, name)
	cmd.Stdin = strings.NewReader("{\n" + exports + scripts[commonScript] + "\n" + scripts[name] + "\n}\n")
	cmd.Env = append(buildEnvironment(os.Environ()), "HOME="+dir)
	// which are below the real home, or noted there
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE", "GOFLAGS"} {
		if out, err := exec.CommandContext(ctx, "go", "env", name).Output(); err == nil {
			value := strings.TrimSpace(string(out))
			// dir is another one each time, and with -trimpath what was compiled before is still good
			if name == "GOFLAGS" {
				value = strings.TrimSpace(value + " -trimpath")
			}
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	named := slices.ContainsFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG_GLOBAL=") })
	if home, err := os.UserHomeDir(); err == nil && !named {
		cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+filepath.Join(home, ".gitconfig"))
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	_, quiet := c.signs("", redacted)
	defer quiet()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	guard, err := process.StartGuarded(cmd, cmd.WaitDelay)
	if err != nil {
		return "", fmt.Errorf("building hive on this machine: %w", err)
	}
	err = cmd.Wait()
	guard.Stop()
	if err != nil {
		log := tail(redactor(c.repoSecrets()...)(stdout.String()+stderr.String()), shownLines)
		last := strings.Join(log[max(0, len(log)-1):], "")
		text := strings.Join(append([]string{last}, log...), "\n    | ")
		return "", fmt.Errorf("building hive on this machine: %s: %w: %s", name, err, text)
	}
	return stdout.String(), nil
}

// buildEnvironment is what a build on this machine gets of the environment: nothing of Proxmox VE's, where the API
// token may be.
func buildEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, "PROXMOX_VE_") || strings.HasPrefix(v, "HIVE_TEST_") ||
			strings.HasPrefix(v, "TF_VAR_")
	})
}
