package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Environment is what a program's environment is to be: variables that are set, and others that are not.
type Environment struct {
	Set   map[string]string
	Unset []string
}

// Bash returns lines for a POSIX shell.
func (e Environment) Bash() (string, error) {
	text, err := Exports(e.Set)
	if len(e.Unset) > 0 {
		text = "unset " + strings.Join(e.Unset, " ") + "\n" + text
	}
	return text, err
}

// Fish returns lines for fish.
func (e Environment) Fish() (string, error) {
	text, err := e.lines(func(name, value string) string { return "set -gx " + name + " " + quoteFish(value) })
	if len(e.Unset) > 0 {
		text = "set -e " + strings.Join(e.Unset, " ") + "\n" + text
	}
	return text, err
}

// quoteFish quotes for fish: between single quotes, a backslash and a single quote are all that is special there.
func quoteFish(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// Dotenv returns a .env file. Its readers differ in what they take for a quote: what needs none has none. A file can
// take no variable away: those are empty.
func (e Environment) Dotenv() (string, error) {
	return e.emptied().lines(func(name, value string) string { return name + "=" + quoteDotenv(value) })
}

// quoteDotenv takes single quotes where it can: between them readers, and shells, take everything as it is. Of a value
// with a single quote and a backslash they do not agree what it is: shells read it right.
func quoteDotenv(value string) string {
	switch {
	case value == Quote(value) || value == "":
		return value
	case !strings.ContainsAny(value, "'\n\r"):
		return "'" + value + "'"
	}
	escaped := strings.NewReplacer(
		`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`", "\n", `\n`, "\r", `\r`,
	).Replace(value)
	return `"` + escaped + `"`
}

// GitHub returns lines for the file that $GITHUB_ENV names in a job of GitHub Actions. It can take no variable away,
// either.
func (e Environment) GitHub() (string, error) {
	return e.emptied().lines(func(name, value string) string {
		if !strings.ContainsAny(value, "\n\r") {
			return name + "=" + value
		}
		end := "END_OF_" + name
		for slices.Contains(strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }), end) {
			end += "_"
		}
		return name + "<<" + end + "\n" + value + "\n" + end
	})
}

// emptied has an empty value for each variable that is not to be set.
func (e Environment) emptied() Environment {
	set := map[string]string{}
	for _, name := range e.Unset {
		set[name] = ""
	}
	maps.Copy(set, e.Set)
	return Environment{Set: set}
}

// lines are all variables in the order of their names.
func (e Environment) lines(line func(name, value string) string) (string, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.Set)) {
		if err := checkVariable(name, e.Set[name]); err != nil {
			return "", err
		}
		text.WriteString(line(name, e.Set[name]) + "\n")
	}
	return text.String(), nil
}

// checkVariable says why no environment can have a variable.
func checkVariable(name, value string) error {
	switch {
	case !variableName.MatchString(name):
		return fmt.Errorf("%q is not a name of an environment variable: use letters, digits and underscores", name)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("the value of %s holds a NUL byte, which no environment variable can", name)
	}
	return nil
}
