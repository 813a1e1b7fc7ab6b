package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/secret"
)

// LoadOptions are where settings come from.
type LoadOptions struct {
	Values     map[string]string   // by key, as a program sets them: they win over everything
	Places     map[string]string   // where Values come from, FILE:LINE, by key; none: the program itself
	Flags      *pflag.FlagSet      // those that were changed win over environment and file; nil: none
	Env        func(string) string // nil: the environment of the process
	Resolver   *secret.Resolver    // reads references; nil: one of these settings alone
	Environ    []string            // of programs that references name; nil: the environment of the process
	WorkDir    string              // where FileName is looked for; empty: the current directory
	ConfigPath string              // a file to read in place of the usual ones; must exist
}

// Load merges flags, environment, file and defaults, in this order of precedence, and checks every value. Of the file, what
// the chosen one of its environments says comes before the rest. All problems
// come back at once as an *Error, each naming the flag, the variable or the file's line that it is about. A variable
// that is empty counts as not set.
func Load(opts LoadOptions) (Settings, error) {
	l := &loader{opts: opts, table: Table(), env: opts.Env, sources: map[string]string{}, values: map[string]any{}}
	if l.env == nil {
		l.env = os.Getenv
	}
	l.fromFile()
	l.fromEnvironment()
	protected, source := l.values["protected"] == true, l.sources["protected"]
	l.fromEnv()
	l.fromFlags()
	l.fromValues()
	settings := l.merge()
	l.keepProtected(&settings, protected, source)
	if len(l.problems) > 0 {
		return settings, &Error{Problems: l.problems}
	}
	return settings, nil
}

type loader struct {
	opts     LoadOptions
	table    []Setting
	env      func(string) string
	file     string
	base     string         // what paths of the file are relative to; empty: the working directory
	values   map[string]any // what the user set, the strongest source last
	sources  map[string]string
	problems []error
}

func (l *loader) set(s Setting, value any, source string) {
	l.values[s.Key], l.sources[s.Key] = value, source
}

func (l *loader) fromFile() {
	named, source := l.named()
	path, err := findFile(named, l.opts.WorkDir, l.env)
	if err != nil {
		l.problems = append(l.problems, fmt.Errorf("%s%w", source, err))
		return
	}
	if path == "" {
		return
	}
	l.file, l.base = path, filepath.Dir(path)
	if Absolute(l.base) == Absolute(l.opts.WorkDir) {
		l.base = "" // paths stay as short as the user wrote them
	}
	values, problems := readFile(path, l.base, l.env("HOME"), l.table)
	l.problems = append(l.problems, problems...)
	l.take(values, path, "")
}

// take sets values of a file; part is what their source ends with.
func (l *loader) take(values map[string]fileValue, path, part string) {
	for _, s := range l.table {
		v, found := values[s.Key]
		if !found {
			continue
		}
		if s.Kind.IsPath() {
			v.value = resolve(v.value.(string), l.base, l.env("HOME"))
		}
		l.set(s, v.value, fmt.Sprintf("%s:%d%s", path, v.line, part))
	}
}

// named is the config file that the user names, and where.
func (l *loader) named() (path, source string) {
	if l.opts.ConfigPath != "" {
		return l.opts.ConfigPath, ""
	}
	if l.opts.Flags != nil {
		if flag := l.opts.Flags.Lookup("config"); flag != nil && flag.Changed {
			return flag.Value.String(), "--config: "
		}
	}
	return l.env("HIVE_TEST_CONFIG"), "HIVE_TEST_CONFIG: "
}

func (l *loader) fromEnv() {
	for _, s := range l.table {
		for _, name := range s.Env {
			text := l.env(name)
			if text == "" {
				continue
			}
			value, err := s.parse(text)
			if s.Key == "no_color" && name == "NO_COLOR" {
				value, err = true, nil // any value means it, by no-color.org
			}
			if err := l.checked(s, value, err, "environment "+name); err != nil {
				l.problems = append(l.problems, fmt.Errorf("environment %s: %w", name, err))
			}
			break
		}
	}
}

func (l *loader) fromFlags() {
	if l.opts.Flags == nil {
		return
	}
	for _, s := range l.table {
		flag := l.opts.Flags.Lookup(s.Flag)
		if s.Flag == "" || flag == nil || !flag.Changed || !OfSetting(flag) {
			continue
		}
		value, err := s.fromFlag(flag)
		if err := l.checked(s, value, err, "flag --"+s.Flag); err != nil {
			l.problems = append(l.problems, &FlagError{Flag: s.Flag, Err: err})
		}
	}
}

func (l *loader) fromValues() {
	for _, key := range slices.Sorted(maps.Keys(l.opts.Values)) {
		place, lead := l.opts.Places[key], ""
		if place != "" {
			lead = place + ": "
		}
		if err := CheckKey(key); err != nil {
			l.problems = append(l.problems, fmt.Errorf("%s%w", lead, err))
			continue
		}
		s, _ := find(l.table, key)
		value, err := s.parse(l.opts.Values[key])
		if err := l.checked(s, value, err, cmp.Or(place, byProgram)); err != nil {
			l.problems = append(l.problems, fmt.Errorf("%s%s: %w", lead, key, err))
		}
	}
}

// CheckKey says that a key is none of a setting, and which are like it.
func CheckKey(key string) error {
	if _, known := find(Table(), key); known {
		return nil
	}
	return fmt.Errorf("%q is no setting%s", key, suggestion(key, Table()))
}

func (s Setting) fromFlag(flag *pflag.Flag) (any, error) {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice(), nil
	}
	return s.parse(flag.Value.String())
}

// checked sets a value that was read without error, or says what is wrong with it.
func (l *loader) checked(s Setting, value any, err error, source string) error {
	if err == nil {
		err = s.check(value)
	}
	if err != nil {
		return err
	}
	if path, ok := value.(string); ok && s.Kind.IsPath() {
		value = resolve(path, "", l.env("HOME"))
	}
	l.set(s, value, source)
	return nil
}

// merge lets viper lay what was set over the defaults and fill the struct. A key that the struct does not know, or a
// field of another type than the table says, is a mistake of the program, which UnmarshalExact finds.
func (l *loader) merge() Settings {
	v := viper.New()
	for _, s := range l.table {
		if s.NoFile || s.Secret || s.Kind.Structured() {
			continue // these do not pass through viper
		}
		if s.Default != nil {
			v.SetDefault(s.Key, s.Default)
		}
		if value, found := l.values[s.Key]; found && !isReference(value) {
			v.Set(s.Key, value)
		}
	}
	var settings Settings
	if err := v.UnmarshalExact(&settings); err != nil {
		l.problems = append(l.problems, err)
	}
	settings.File, settings.sources, settings.values = l.file, l.sources, map[string]any{}
	settings.programmed = l.opts.Values
	for _, s := range l.table {
		settings.values[s.Key] = v.Get(s.Key)
	}
	settings.Credentials, _ = l.values["credentials"].([]Credential)
	settings.Environments, _ = l.values["environments"].([]Environment)
	settings.IKnow, _ = l.values["i_know"].(string)
	l.noteReferences(&settings)
	l.derive(&settings)
	l.secret(&settings)
	l.hypervisors(&settings)
	settings.NamedSuites, _ = l.values["suites"].([]Suite)
	settings.State, _ = l.values["state"].(State)
	l.passphrase(&settings)
	settings.Layers, _ = l.values["templates"].([]Layer)
	settings.Quarantine, _ = l.values["quarantine"].([]Quarantine)
	return settings
}

// derive fills in what follows from other settings.
func (l *loader) derive(settings *Settings) {
	if settings.SSHPublicKeyPath == "" && settings.SSHPrivateKeyPath != "" {
		settings.SSHPublicKeyPath = settings.SSHPrivateKeyPath + ".pub"
	}
	l.deriveSSH(settings)
	if p := settings.Provider; p != "auto" && p != "registry" && settings.ProviderMirror == "" {
		settings.ProviderMirror = resolve(p, "", l.env("HOME"))
	}
}

// deriveSSH reads the user's ssh_config, and with it what the jump hosts are.
func (l *loader) deriveSSH(settings *Settings) {
	s := &settings.SSH
	home := l.env("HOME")
	if s.ConfigFile == "" && home != "" {
		s.ConfigFile = filepath.Join(home, ".ssh", "config")
	}
	s.Config = loadSSHConfig(s.ConfigFile, home)
	if s.ProxyJump == "" {
		return
	}
	var err error
	if s.Jumps, err = s.Config.jumps(s.ProxyJump); err == nil {
		err = s.Config.err
	}
	l.problem(settings, "ssh.proxy_jump", err)
}

// secret takes the token, or the content of its file. It does not pass through viper, which prints what it holds. A
// file that cannot be read is a problem of what needs the token, unless a flag names it.
func (l *loader) secret(settings *Settings) {
	if isReference(l.values["proxmox.token"]) {
		return // it is read when it is needed
	}
	token, _ := l.values["proxmox.token"].(string)
	if file := settings.Proxmox.TokenFile; token == "" && file != "" {
		var err error
		if token, err = readToken(file); err != nil && settings.Explicit("proxmox.token_file") {
			l.problem(settings, "proxmox.token_file", err)
		} else if err != nil {
			settings.Proxmox.TokenErr = progress.WithHint(
				fmt.Errorf("no API token: proxmox.token_file (%s): %w", settings.Source("proxmox.token_file"), err),
				"write the token there, user@realm!name=secret, or name another file with --proxmox-token-file, or set "+
					"PROXMOX_VE_API_TOKEN",
			)
		}
	}
	settings.Proxmox.Token = NewSecret(strings.TrimSpace(token))
	passphrase, _ := l.values["state_server.age_passphrase"].(string)
	settings.StateServer.Passphrase = NewSecret(passphrase)
}

// passphrase takes the passphrase of states, or the content of its file. One that cannot be read is a problem of what needs it.
func (l *loader) passphrase(settings *Settings) {
	text, _ := l.values["state_passphrase"].(string)
	if file := settings.StatePassphraseFile; text == "" && file != "" {
		var err error
		if text, err = readToken(file); err != nil {
			settings.StatePassphraseErr = fmt.Errorf("state_passphrase_file (%s): %w", settings.Source("state_passphrase_file"), err)
		}
	}
	settings.StatePassphrase = NewSecret(strings.TrimSpace(text))
}

func readToken(file string) (string, error) {
	raw, err := os.ReadFile(Absolute(file))
	token := strings.TrimSpace(string(raw))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", Absolute(file))
	}
	return token, err
}

func (l *loader) hypervisors(settings *Settings) {
	list, _ := l.values["proxmox.hypervisors"].([]placement.Hypervisor)
	complete, err := completeHypervisors(list)
	l.problem(settings, "proxmox.hypervisors", err)
	if len(complete) > 0 {
		settings.Proxmox.Hypervisors = complete
	}
}

// problem notes what is wrong with a setting, if anything is.
func (l *loader) problem(settings *Settings, key string, err error) {
	if err == nil {
		return
	}
	source := settings.Source(key)
	if flag, given := strings.CutPrefix(source, "flag --"); given {
		l.problems = append(l.problems, &FlagError{Flag: flag, Err: err})
		return
	}
	l.problems = append(l.problems, fmt.Errorf("%s (%s): %w", key, source, err))
}
