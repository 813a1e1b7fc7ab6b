package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/secret"
	"hive-test/pkg/secret/sops"
)

// SecretFinding is something about secrets that is to be mended. It holds none.
type SecretFinding struct {
	File   string `json:"file"`
	Line   int    `json:"line" jsonschema:"omitempty"` // 0: the file as a whole
	ID     string `json:"id"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// What SecretFindings are about.
const (
	findPlain     = "plain"      // a secret that stands there as it is
	findIndex     = "git-index"  // one that is in git's index
	findMode      = "mode"       // a file that others can read
	findReference = "reference"  // one that cannot be read
	findFile      = "encryption" // an encrypted file that cannot be read
)

// SecretsChecked is what CheckSecrets has found, and what it has looked at.
type SecretsChecked struct {
	Findings   []SecretFinding
	Files      []string
	References int
	Skipped    []string // what was not looked at, and why
}

// envFile is the file of variables that is looked at where it is there.
const envFile = ".env"

// CheckSecrets looks for secrets that stand in the config file, in .env and in files as they are, for keys and secrets in
// git's index of the repository that dir is in, for files with keys that others can read, and for references and
// encrypted files that cannot be read. Every reference is read.
func (e *Engine) CheckSecrets(ctx context.Context, r SecretsRequest, dir string, files []string) (SecretsChecked, error) {
	c := &secretsCheck{Engine: e, request: r, dir: dir}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return c.SecretsChecked, usage(err)
		}
	}
	if r.Settings.File != "" {
		files = append(files, r.Settings.File)
	}
	if _, err := os.Stat(filepath.Join(dir, envFile)); err == nil {
		files = append(files, filepath.Join(dir, envFile))
	}
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		c.file(file)
	}
	c.keyFiles()
	c.references(ctx)
	c.index(ctx)
	slices.SortStableFunc(c.Findings, func(a, b SecretFinding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return c.SecretsChecked, ctx.Err()
}

type secretsCheck struct {
	*Engine
	SecretsChecked
	request SecretsRequest
	dir     string
}

func (c *secretsCheck) find(file string, line int, id, detail, fix string) {
	f := SecretFinding{file, line, id, c.Secrets.Mask(detail), c.Secrets.Mask(fix)}
	if !slices.Contains(c.Findings, f) {
		c.Findings = append(c.Findings, f)
	}
}

// file looks at one file: as an encrypted one if it is, else for secrets that stand there.
func (c *secretsCheck) file(path string) {
	c.Files = append(c.Files, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		c.find(path, 0, findFile, err.Error(), "it must be readable for who runs this")
		return
	}
	if _, _, err := sops.Recipients(sops.FormatOf(path), raw); !errors.Is(err, sops.ErrPlain) && bytes.Contains(raw, []byte("ENC[AES256_GCM,")) {
		c.encrypted(path)
		return
	}
	found := secret.Scan(string(raw), secret.ScanOptions{Keyed: true})
	for _, f := range found {
		c.find(path, f.Line, findPlain, f.What+" stands here as it is", f.Fix)
	}
	if len(found) > 0 {
		c.mode(path)
	}
}

// encrypted opens a file that SOPS has encrypted.
func (c *secretsCheck) encrypted(path string) {
	request := c.request
	request.File = path
	if _, err := c.openSecrets(request, false); err != nil {
		if needsSOPS(err) {
			c.Skipped = append(c.Skipped, fmt.Sprintf("%s: %v", path, err))
			return
		}
		c.find(path, 0, findFile, err.Error(), cmp.Or(progress.HintOf(err), "put a copy from before it was changed there"))
	}
}

// mode finds a file that others than its owner can read.
func (c *secretsCheck) mode(path string) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return
	}
	c.find(path, 0, findMode, fmt.Sprintf("it holds a secret, and others can read it: mode %04o", info.Mode().Perm()), "chmod 600 "+remote.Quote(path))
}

// keyFiles looks at the files that hold keys and tokens by their nature.
func (c *secretsCheck) keyFiles() {
	s, env := c.request.Settings, c.request.Getenv
	for _, path := range []string{
		s.AgeKeyFile, env("SOPS_AGE_KEY_FILE"), secret.UserKeys(env), s.Proxmox.TokenFile, s.SSHPrivateKeyPath,
		s.Proxmox.SSHPrivateKeyPath,
	} {
		if path != "" {
			c.mode(path)
		}
	}
	for _, problem := range secret.FindKeys(s.AgeKeyFile, env).Problems {
		path, what, _ := strings.Cut(problem, ": ")
		c.find(path, 0, findFile, what, "put an age key there, or name another file")
	}
}

// checkLimit bounds the reading of all references.
const checkLimit = 2 * time.Minute

// references reads all of them.
func (c *secretsCheck) references(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("there was no answer within %s", progress.FormatLimit(checkLimit)))
	defer cancel()
	s := c.request.Settings
	check := func(ref secret.Reference, what, place string) {
		c.References++
		if ref.Kind == secret.File {
			c.mode(ref.Path)
		}
		value, err := s.Resolver().Read(ctx, ref)
		c.Secrets.Learn(value)
		if err != nil {
			file, line := config.LineOf(place)
			c.find(file, line, findReference, what+": "+err.Error(), cmp.Or(progress.HintOf(err), "mend the reference"))
		}
	}
	for _, row := range config.Table() {
		if ref, named := s.Reference(row.Key); named {
			check(ref, row.Key, s.Source(row.Key))
		}
	}
	for _, credential := range s.Credentials {
		if ref, named := credential.Reference(); named {
			check(ref, "credentials."+credential.Owner+"."+credential.Name, credential.Place)
		}
	}
}

// indexPatterns find the lines of git's index that are looked at.
func indexPatterns() []string {
	return []string{
		"AGE-SECRET-KEY-", "PRIVATE KEY-----", "(AKIA|ASIA)[0-9A-Z]{16}", "://[^/ ]*:[^/ ]*@", "![A-Za-z0-9._-]+=[0-9a-f]{8}-",
		"[Ss][Ee][Cc][Rr][Ee][Tt]", "[Tt][Oo][Kk][Ee][Nn]", "[Pp][Aa][Ss][Ss][Ww]", "[Aa][Pp][Ii]_?[Kk][Ee][Yy]",
	}
}

// index looks at what git's index of the repository holds: what is committed next, and most of what was.
func (c *secretsCheck) index(ctx context.Context) {
	args := []string{"-C", c.dir, "grep", "--cached", "-I", "-n", "-z", "--full-name", "-E"}
	for _, pattern := range indexPatterns() {
		args = append(args, "-e", pattern)
	}
	cmd := exec.CommandContext(ctx, "git", append(args, "--", ":/")...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return // there is no such line
	}
	if err != nil {
		c.Skipped = append(c.Skipped, "git's index: there is no repository here that git can read")
		return
	}
	root := c.root(ctx)
	for line := range strings.Lines(string(out)) {
		file, number, text, found := indexLine(line)
		if !found {
			continue
		}
		for _, f := range secret.Scan(text, secret.ScanOptions{Keyed: secret.HoldsSettings(file)}) {
			path := filepath.Join(root, file)
			fix := f.Fix + "; then git add " + remote.Quote(path)
			if f.Key {
				fix = "git rm --cached " + remote.Quote(path) + "; " + f.Fix
			}
			c.find(path, number, findIndex, f.What+" is in git's index", fix+"; where it was pushed, replace it where it was made, too")
		}
	}
}

// indexLine reads what git grep prints: FILE, LINE and the text, with NUL bytes between.
func indexLine(line string) (file string, number int, text string, found bool) {
	parts := strings.SplitN(line, "\x00", 3)
	if len(parts) != 3 {
		return "", 0, "", false
	}
	number, err := strconv.Atoi(parts[1])
	return parts[0], number, parts[2], err == nil
}

// root is the repository's top directory, as seen from where the program runs.
func (c *secretsCheck) root(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "-C", c.dir, "rev-parse", "--show-cdup")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
