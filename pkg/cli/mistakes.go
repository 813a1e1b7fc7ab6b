package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// strict makes every mistake in a command's words one of usage, also in those of the commands that cobra brings, which
// would show their help and call it done.
func strict(cmd *cobra.Command) {
	if !cmd.Runnable() {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, helpOrUnknown
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			if _, told := errors.AsType[engine.Error](err); !told { // it is cobra's
				err = progress.WithHint(err, usageLine(cmd))
			}
			return usage(err)
		}
	}
	if cmd.Annotations[documents] == "" {
		cmd.PreRunE = refuseDocument
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// helpOrUnknown is what a command does that does nothing by itself.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownVerb(cmd, args[0])
}

func unknownVerb(cmd *cobra.Command, verb string) error {
	_, path, _ := strings.Cut(cmd.CommandPath()+" ", " ") // a verb may have words below it
	if near := nearestVerbs(cmd, verb); len(near) > 0 {
		return usage(fmt.Errorf("unknown verb %q: did you mean %s?", path+verb, strings.Join(near, " or ")))
	}
	return usage(progress.WithHint(fmt.Errorf("unknown verb %q", path+verb), "`hive-test help` lists the verbs"))
}

// nearestVerbs are the verbs that other programs call so, else those that are most like what was typed.
func nearestVerbs(cmd *cobra.Command, typed string) []string {
	var names, meant []string
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, typed) {
			meant = append(meant, c.Name())
		}
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if len(meant) > 0 {
		return meant
	}
	return config.Nearest(typed, names)
}

// flagMistake adds to an unknown flag what may have been meant.
func flagMistake(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage(invalidValue(invalid))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage(err)
	}
	name := unknown.GetSpecifiedName()
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return usage(progress.WithHint(err, "times and numbers are not negative: write "+
			cmp.Or(strings.TrimLeft(unknown.GetSpecifiedShortnames(), "-"), name)))
	}
	if letters := unknown.GetSpecifiedShortnames(); len(letters) > 1 {
		name = letters // -sim, where --sim was meant
	}
	if meant := meantByFlag(cmd, name); meant != "" {
		return usage(fmt.Errorf("%w: %s", err, meant))
	}
	return usage(progress.WithHint(err, "`"+cmd.CommandPath()+" --help` lists the flags"))
}

// invalidValue says what is wrong with the value of a flag, in the words that the same value of a variable gets.
func invalidValue(e *pflag.InvalidValueError) error {
	flag, why := e.GetFlag(), e.Unwrap()
	switch flag.Value.Type() {
	case "int":
		why = cmp.Or(config.CheckNumber(flag.Name, e.GetValue()), why)
	case "bool":
		why = fmt.Errorf("%q is neither true nor false", e.GetValue())
	}
	return fmt.Errorf("--%s: %w", flag.Name, why)
}

func meantByFlag(cmd *cobra.Command, name string) string {
	if name, _, _ = strings.Cut(name, "="); len(name) < 2 {
		return ""
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	if slices.Contains(flags, name) {
		return "did you mean --" + name + "?"
	}
	var verbs, same []string
	for _, c := range cmd.Root().Commands() {
		if c.Name() == name {
			same = append(same, c.CommandPath())
		}
		if flag := c.LocalFlags().Lookup(name); flag != nil && !flag.Hidden {
			verbs = append(verbs, c.Name())
		}
	}
	if len(verbs) > 0 {
		text := "it is a flag of " + strings.Join(verbs, ", ")
		if count := strings.TrimSuffix(name, "s") + "-count"; slices.Contains(flags, count) { // --nodes 5
			text += "; did you mean --" + count + "?"
		}
		return text
	}
	if len(same) > 0 {
		return "it is a verb: " + same[0]
	}
	if near := config.Nearest(name, flags); len(near) > 0 {
		return "did you mean --" + strings.Join(near, " or --") + "?"
	}
	return ""
}
