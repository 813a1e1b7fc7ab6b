package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"hive-test/pkg/remote"
)

// advisedCommand is a command of this program within a text, up to where the text goes on.
var advisedCommand = regexp.MustCompile("hive-test (?:init|up|configure|test|down|full|status|wait|doctor|extend|hold|reap|logs|explain|report|runs|ssh|exec|cp|env|inventory|unlock|attach|drift|ensure)\\b[^`;,\n]*")

// placeFlags are those of this run's flags that say where its clusters and its settings are.
func placeFlags(flags *pflag.FlagSet) string {
	var given strings.Builder
	for _, name := range []string{"clusters-dir", "config", "env"} {
		if f := flags.Lookup(name); f != nil && f.Changed {
			given.WriteString(" --" + name + " " + remote.Quote(f.Value.String()))
		}
	}
	return given.String()
}

// inPlace adds to the commands that a text advises the flags without which they would be about other clusters.
func (a *app) inPlace(text string) string {
	if a.place == "" {
		return text
	}
	return advisedCommand.ReplaceAllStringFunc(text, func(command string) string {
		if strings.Contains(command, " --clusters-dir ") || strings.Contains(command, a.place) {
			return command
		}
		words := strings.SplitN(command, " ", 3)
		words[1] += a.place
		return strings.Join(words, " ")
	})
}
