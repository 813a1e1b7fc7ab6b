package hive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
)

const (
	collectTimeout = 30 * time.Second
	collectScript  = "collect.sh"
	collectTail    = "2097152" // bytes of the end of each log
	collectMost    = 64 << 20  // bytes of all of them
)

// Item is one thing that a node was asked for. File is where it is, below the directory that was given; Why says why it
// could not be had, or not as a whole.
type Item struct{ What, File, Why string }

// Collect writes what helps to understand a node into dir, which is made if need be: the services' logs and those of
// init, join and start, hive.toml, /health and /routez as they are now, and the system's own state: journal,
// cloud-init, ports, processes, disks, memory, time. Secrets are removed, by value where they are known and by their
// looks, and told to Options.Secrets. Files have mode 0600. It gathers what it can and returns what it asked for; the
// error means that the node could not be asked at all over SSH. Of a machine that is known to be dead it keeps nothing.
func (c *Cluster) Collect(ctx context.Context, host Host, dir string) ([]Item, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the evidence directory: %w", err)
	}
	var items []Item
	var failure error
	var health, routez said
	var all sync.WaitGroup
	all.Go(func() { items, failure = c.collectFiles(ctx, host, dir) })
	all.Go(func() {
		access, _ := c.Credentials(ctx) // without it, HTTPS is not believed, and the file says so
		probe := c.newProber(access.CA)
		defer probe.close()
		health.err = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) (err error) {
			health.answer, _, err = probe.getEither(ctx, address(host, ManagerPort)+"/health")
			return err
		})
	})
	all.Go(func() {
		monitor := c.newProber(nil)
		defer monitor.close()
		routez.err = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) (err error) {
			routez.answer, err = monitor.get(ctx, "http://"+address(host, MonitorPort)+"/routez")
			return err
		})
	})
	all.Wait()
	if _, dead := errors.AsType[*liveness.UnreachableError](failure); dead { // it cannot have answered
		return nil, failure
	}
	if routez.err != nil && failure == nil { // later versions answer on the node itself only
		through := c.newProberFrom(host)
		defer through.close()
		routez.answer, routez.err = through.get(ctx, "http://"+monitorLoopback()+"/routez")
	}
	return append(items, c.keepAnswer(dir, "health.txt", health), c.keepAnswer(dir, "routez.txt", routez)), failure
}

// said is what a node answered over the network, or why it did not.
type said struct {
	answer answer
	err    error
}

func (c *Cluster) collectFiles(ctx context.Context, host Host, dir string) ([]Item, error) {
	result, err := c.script(
		ctx, host, collectScript, collectTimeout, map[string]string{"HIVE_TAIL_BYTES": collectTail}, nil,
	)
	if err != nil {
		return nil, fmt.Errorf("gather files of %s: %w", host.Name(), err)
	}
	files, err := untar(result.Stdout)
	if err != nil {
		err = fmt.Errorf("read the files of %s: %w", host.Name(), err)
	}
	secrets := knownSecrets(files)
	c.options.Secrets.Learn(secrets...)
	clean := c.cleaner(secrets)
	var items []Item
	for line := range strings.Lines(files["missing"]) {
		what, why, _ := strings.Cut(strings.TrimSpace(line), "\t")
		items = append(items, Item{What: what, Why: why})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "missing" || strings.HasPrefix(name, "secrets/") {
			continue
		}
		told := slices.ContainsFunc(items, func(i Item) bool { return i.What == name })
		if text := files[name]; text != "" || !told { // of one that could not be had it is told already
			items = append(items, keep(dir, name, clean(text), ""))
		}
	}
	return items, err
}

// keep writes one file below dir; why says why that is not all.
func keep(dir, name, text, why string) Item {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return Item{What: name, Why: "make an evidence directory: " + err.Error()}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return Item{What: name, Why: "write evidence: " + err.Error()}
	}
	return Item{What: name, File: name, Why: why}
}

// cleaner takes out what is secret: these values, all that became known otherwise, and what looks like a secret.
func (c *Cluster) cleaner(values []string) func(string) string {
	mask := progress.NewMasker(append(slices.Clone(values), c.options.Secrets.Values()...))
	return func(text string) string { return redacted(mask.Mask(text)) }
}

// untar returns the regular files of an archive by their clean relative names.
func untar(archive []byte) (map[string]string, error) {
	files := map[string]string{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		name := path.Clean(header.Name)
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			continue
		}
		// A node may say of a few bytes that they are a sparse file of any length.
		text, err := io.ReadAll(io.LimitReader(reader, int64(len(archive))))
		if err != nil {
			return files, err
		}
		files[name] = string(text)
	}
}

func (c *Cluster) keepAnswer(dir, name string, s said) Item {
	why, took := "", s.answer.took.Round(time.Millisecond)
	text := fmt.Sprintf("HTTP %d after %s\n%s", s.answer.code, took, s.answer.body)
	if s.err != nil {
		text, why = s.err.Error(), s.err.Error()
	}
	return keep(dir, name, c.cleaner(nil)(text+"\n"), why)
}
