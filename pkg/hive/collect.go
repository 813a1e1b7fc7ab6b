package hive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	collectTimeout = 2 * time.Minute
	collectTail    = "2097152" // bytes of the end of each log
)

// Collect writes what helps to understand a node into dir, which is made if need be: the services' logs and those of init,
// join and start, hive.toml, /health and /routez as they are now, and the system's own state. Secrets are removed, by value
// where they are known and by their looks. Files have mode 0600. It gathers what it can: the error says what it could not.
func (c *Cluster) Collect(ctx context.Context, host Host, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the evidence directory: %w", err)
	}
	return errors.Join(c.collectFiles(ctx, host, dir), c.collectAnswers(ctx, host, dir))
}

// CollectAll collects from all nodes at once, each into a directory of dir that is called after it.
func (c *Cluster) CollectAll(ctx context.Context, dir string) error {
	return each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		return c.Collect(ctx, host, filepath.Join(dir, host.Name()))
	})
}

func (c *Cluster) collectFiles(ctx context.Context, host Host, dir string) error {
	result, err := c.script(ctx, host, "collect.sh", collectTimeout, map[string]string{"HIVE_TAIL_BYTES": collectTail}, nil)
	if err != nil {
		return fmt.Errorf("gather files of %s: %w", host.Name(), err)
	}
	files, err := untar(result.Stdout)
	if err != nil {
		return fmt.Errorf("read the files of %s: %w", host.Name(), err)
	}
	redactor := newRedactor(knownSecrets(files)...)
	var problems []error
	for name, text := range files {
		if !strings.HasPrefix(name, "secrets/") && text != "" {
			problems = append(problems, writeEvidence(dir, name, redactor.text(text)))
		}
	}
	return errors.Join(problems...)
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
		text, err := io.ReadAll(reader)
		if err != nil {
			return files, err
		}
		files[name] = string(text)
	}
}

// knownSecrets are the values that must not be in evidence.
func knownSecrets(files map[string]string) []string {
	values := secretValues(files["hive.toml"])
	values = append(values, secretValues(files["secrets/credentials"])...)
	return append(values, files["secrets/join-token"], files["secrets/master.key"])
}

// collectAnswers keeps what the node answers over the network, or why it does not.
func (c *Cluster) collectAnswers(ctx context.Context, host Host, dir string) error {
	access, _ := c.Credentials(ctx) // without it, HTTPS is not believed, and the file says so
	probe := c.newProber(access.CA)
	defer probe.close()
	health, _, err := probe.getEither(ctx, address(host, ManagerPort)+"/health")
	problem := writeEvidence(dir, "health.txt", describe(health, err))
	monitor := c.newProber(nil)
	defer monitor.close()
	routez, err := monitor.get(ctx, "http://"+address(host, MonitorPort)+"/routez")
	if err != nil {
		through := c.newProber(nil)
		defer through.close()
		through.through(host)
		routez, err = through.get(ctx, "http://"+monitorLoopback()+"/routez")
	}
	return errors.Join(problem, writeEvidence(dir, "routez.txt", describe(routez, err)))
}

func describe(a answer, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return fmt.Sprintf("HTTP %d\n%s\n", a.code, newRedactor().text(string(a.body)))
}

func writeEvidence(dir, name, text string) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make an evidence directory: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}
