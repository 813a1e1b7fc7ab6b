package opentofu

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hive-test/pkg/process"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// passedOn returns the caller's variables that a child gets as they are. Everything else, TF_VAR_* and TF_CLI_ARGS*
// above all, stays outside: a plan depends on what is written in its directory and on nothing else.
func passedOn() []string {
	return []string{
		"PATH", "TMPDIR", "LANG", "LC_ALL", "TZ",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "GOGC", "GOMEMLIMIT",
	}
}

// environment returns the whole environment of a child, and what of it must not be seen.
func (r *Runner) environment(ctx context.Context, w workdir, b Binary) (map[string]string, []string, error) {
	env := map[string]string{
		"PATH":               defaultPath,
		"HOME":               w.home(), // providers keep there what they know of others, such as SSH host keys
		"CHECKPOINT_DISABLE": "1",
		ownerVariable:        r.options.OwnerID,
		runVariable:          process.Self().String(),
	}
	for _, key := range passedOn() {
		if value := Lookup(r.options.Env, key); value != "" {
			env[key] = value
		}
	}
	ofBackend, secrets := r.options.Backend.environment(r.options.Env, b.Flavor)
	maps.Copy(env, ofBackend)
	if err := r.setInstallation(env, w, b); err != nil {
		return env, secrets, err
	}
	for _, add := range []func(context.Context) (Environment, error){r.options.Credentials, r.ownEnvironment(w)} {
		if add == nil {
			continue
		}
		more, err := add(ctx)
		if err != nil {
			return env, nil, err
		}
		maps.Copy(env, more.Variables)
		secrets = append(secrets, more.Secrets...)
	}
	return env, secrets, nil
}

// ownEnvironment is what the module's user adds, which wins; nil: nothing.
func (r *Runner) ownEnvironment(w workdir) func(context.Context) (Environment, error) {
	if r.options.Environment == nil {
		return nil
	}
	return func(ctx context.Context) (Environment, error) { return r.options.Environment(ctx, w.dir()) }
}

// setInstallation says where providers come from: the mirror if there is one, and nothing else then; otherwise what the
// user has configured for tofu, with a shared cache.
func (r *Runner) setInstallation(env map[string]string, w workdir, b Binary) error {
	config := ""
	switch own := userConfig(r.options.Env, b.Flavor); {
	case r.options.ProviderMirror != "":
		mirror, err := filepath.Abs(r.options.ProviderMirror)
		if err != nil {
			return fmt.Errorf("provider mirror: %w", err)
		}
		config = fmt.Sprintf(
			"provider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n", quoteHCL(mirror),
		)
	case own != "":
		env["TF_CLI_CONFIG_FILE"] = own
		if raw, err := os.ReadFile(own); err == nil && bytes.Contains(raw, []byte("plugin_cache_dir")) {
			return nil
		}
	}
	if _, ok := env["TF_CLI_CONFIG_FILE"]; !ok {
		if err := replace(w.cliConfig(), []byte(config)); err != nil {
			return fmt.Errorf("write the CLI configuration: %w", err)
		}
		env["TF_CLI_CONFIG_FILE"] = w.cliConfig()
	}
	if cache := r.pluginCache(b); cache != "" {
		if err := os.MkdirAll(cache, 0o755); err != nil {
			return fmt.Errorf("make the provider cache: %w", err)
		}
		env["TF_PLUGIN_CACHE_DIR"] = cache
	}
	return nil
}

// pluginCache returns the shared directory of unpacked providers, or nothing where a mirror makes it needless: a mirror
// is linked to, not copied.
func (r *Runner) pluginCache(b Binary) string {
	own := Lookup(r.options.Env, "TF_PLUGIN_CACHE_DIR")
	switch {
	case r.options.ProviderMirror != "":
		return ""
	case own != "" || r.options.CacheDir == "":
		return own
	}
	return filepath.Join(r.options.CacheDir, "providers")
}

// userConfig returns the user's own CLI configuration file, or nothing. HOME is not the user's in a child, so the
// programs would not find it themselves. A variable that names a missing file counts as not set.
func userConfig(env []string, flavor string) string {
	paths := []string{Lookup(env, "TF_CLI_CONFIG_FILE")}
	if home := Lookup(env, "HOME"); home != "" {
		if flavor == OpenTofu {
			paths = append(paths, filepath.Join(home, ".tofurc"))
			if xdg := Lookup(env, "XDG_CONFIG_HOME"); xdg != "" {
				paths = append(paths, filepath.Join(xdg, "opentofu", "tofurc"))
			}
		}
		paths = append(paths, filepath.Join(home, ".terraformrc"))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// quoteHCL quotes text as an HCL string.
func quoteHCL(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}
