package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"

	"go.yaml.in/yaml/v3"
)

// outputSchema is the version of the shapes that -o json prints: within it fields may be added, never renamed.
const outputSchema = 1

// printJSON writes one document to stdout.
func printJSON(w io.Writer, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(progress.DisarmJSON(raw), '\n'))
	return err
}

// printYAML writes the same document as YAML, with the JSON names.
func printYAML(w io.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	out, err := yaml.Marshal(plain)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// printAs writes value in a structured format; ok is false for formats that are tables.
func printAs(w io.Writer, format string, value any) (ok bool, err error) {
	switch format {
	case "json":
		return true, printJSON(w, value)
	case "yaml":
		return true, printYAML(w, value)
	}
	return false, nil
}

// printedForm is the form that --format names or, where that is not given, -o does.
func printedForm(given bool, format string, settings config.Settings) (string, error) {
	asked := settings.Explicit("output")
	switch document := settings.Output == "json" || settings.Output == "yaml"; {
	case given && asked:
		return "", usage(errors.New("--format and -o both say what to print: use one of them"))
	case given:
	case document:
		return settings.Output, nil
	case asked:
		return "", usage(fmt.Errorf("-o %s is not possible here: use json, yaml or --format", settings.Output))
	}
	return format, nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine is text as a part of a line of ours.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(progress.Clean(text))
}

// noDocument refuses a form of document that the user asks for where none is printed, and what is: said by instead.
func noDocument(settings config.Settings, instead string) error {
	if settings.Explicit("output") && settings.Output != "table" {
		return usage(fmt.Errorf("-o %s is not possible here: %s", settings.Output, instead))
	}
	return nil
}

// documents is the annotation of the verbs that print documents. The others take no -o.
const documents = "documents"

// refuseDocument is noDocument for commands that have no settings.
func refuseDocument(cmd *cobra.Command, _ []string) error {
	if form := cmd.Flag("output"); form != nil && form.Changed && form.Value.String() != form.DefValue {
		return usage(fmt.Errorf("-o %s is not possible here: %s prints no document", form.Value, cmd.CommandPath()))
	}
	return nil
}
