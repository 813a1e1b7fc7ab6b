package opentofu

import (
	"context"
	"io"

	tfjson "github.com/hashicorp/terraform-json"
)

// Dir is the directory that the program works in.
func (r *Run) Dir() string { return r.dir.dir() }

// Validate returns what the program finds wrong with the module, warnings left out.
func (r *Run) Validate(ctx context.Context) (found []Diagnostic, err error) {
	var output *tfjson.ValidateOutput
	err = r.step(ctx, "validate", func(*stream) (err error) {
		r.tofu.SetStdout(io.Discard)
		output, err = r.tofu.Validate(ctx)
		return err
	})
	if err != nil || output.Valid {
		return nil, err
	}
	for _, d := range output.Diagnostics {
		if d.Severity == tfjson.DiagnosticSeverityError {
			found = append(found, Diagnostic{Severity: string(d.Severity), Summary: mask(d.Summary, r.secrets), Detail: mask(d.Detail, r.secrets)})
		}
	}
	return found, nil
}

// Unformatted returns the module's files that are not written as the program formats them, sorted.
func (r *Run) Unformatted(ctx context.Context) (files []string, err error) {
	err = r.step(ctx, "fmt", func(*stream) (err error) {
		r.tofu.SetStdout(io.Discard)
		_, files, err = r.tofu.FormatCheck(ctx)
		return err
	})
	return files, err
}
