package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/subosito/gotenv"
)

// sampleEnvironment has in its values all that shells and readers of files take for something.
func sampleEnvironment() Environment {
	return Environment{
		Set: map[string]string{
			"T_PLAIN": "https://10.0.0.1:9999", "T_EMPTY": "", "T_SPACE": " a  b ", "T_QUOTES": `it's "so"`,
			"T_DOLLAR": "$HOME ${HOME} `id` $(id) !x", "T_BACK": `a\b\\c\n`, "T_HASH": "a #b", "T_GLOB": "* ~ ? {a,b}",
			"T_EQUALS": "a=b<<c", "T_UTF8": "é", "T_PERCENT": "50%", "T_SEMI": "a;b&c|d", "T_BOTH": `'$HOME"`,
		},
		Unset: []string{"T_GONE"},
	}
}

// withLines adds a value of several lines, one of which is what ends others.
func (e Environment) withLines() Environment {
	e.Set["T_CARRIAGE"] = "one\r\ntwo"
	e.Set["T_LINES"] = "one\nEND_OF_T_LINES\n'two'\n"
	return e
}

// printed are the variables whose names begin with T_ that a program, run with T_GONE set, has at its end.
func printed(t *testing.T, argv ...string) map[string]string {
	t.Helper()
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), "T_GONE=here", "HOME="+t.TempDir())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%q: %v\n%s", argv, err, stderr.Bytes())
	}
	vars := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "T_") {
			vars[name] = value
		}
	}
	return vars
}

func TestEnvironmentsAreReadByShells(t *testing.T) {
	e := sampleEnvironment().withLines()
	for program, form := range map[string]func() (string, error){
		"sh": e.Bash, "bash": e.Bash, "dash": e.Bash, "zsh": e.Bash, "fish": e.Fish,
	} {
		t.Run(program, func(t *testing.T) {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skipf("%s is not installed", program)
			}
			text, err := form()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.Set, printed(t, path, "-c", text+"env -0")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}

func TestEnvironmentsAreReadFromFiles(t *testing.T) {
	for name, read := range map[string]struct {
		e    Environment
		form func(Environment) (string, error)
		by   func(t *testing.T, file string) map[string]string
	}{
		"dotenv": {sampleEnvironment().withLines(), Environment.Dotenv, func(t *testing.T, file string) map[string]string {
			vars, err := gotenv.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			return vars
		}},
		"dotenv by a shell": {sampleEnvironment(), Environment.Dotenv, func(t *testing.T, file string) map[string]string {
			return printed(t, "sh", "-c", `set -a; . "$0"; env -0`, file)
		}},
		"github": {sampleEnvironment().withLines(), Environment.GitHub, readGitHubEnv},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := read.form(read.e)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "env")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(read.e.emptied().Set, read.by(t, file)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}

// readGitHubEnv reads a file as the runner of GitHub Actions is documented to: NAME=VALUE, or NAME<<END, lines, END.
func readGitHubEnv(t *testing.T, file string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		if equals >= 0 && (heredoc < 0 || equals < heredoc) {
			vars[line[:equals]] = line[equals+1:]
			continue
		}
		if heredoc < 0 {
			t.Fatalf("%q is neither", line)
		}
		var value []string
		for len(lines) > 0 && lines[0] != line[heredoc+2:] {
			value, lines = append(value, lines[0]), lines[1:]
		}
		if len(lines) == 0 {
			t.Fatalf("%q does not end", line)
		}
		vars[line[:heredoc]], lines = strings.Join(value, "\n"), lines[1:]
	}
	return vars
}

func TestEnvironmentsThatNobodyCanHave(t *testing.T) {
	for _, bad := range []map[string]string{{"A-B": ""}, {"": ""}, {"1": ""}, {"A;id": ""}, {"A": "\x00"}} {
		e := Environment{Set: bad}
		for name, form := range map[string]func() (string, error){
			"bash": e.Bash, "fish": e.Fish, "dotenv": e.Dotenv, "github": e.GitHub,
		} {
			if text, err := form(); err == nil {
				t.Errorf("%s took %q: %s", name, bad, text)
			}
		}
	}
}
