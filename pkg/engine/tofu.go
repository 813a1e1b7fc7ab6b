package engine

import (
	"context"

	"hive-test/pkg/config"
	"hive-test/pkg/target"
)

// TofuProgram is an OpenTofu or Terraform that was found.
type TofuProgram = target.Tofu

// NoTofuError says that there is neither OpenTofu nor Terraform, where it was only asked.
type NoTofuError = target.NoTofuError

// Tofu finds the OpenTofu or Terraform that clusters are made with. Where neither is there, it downloads OpenTofu if
// download says so: what it fails with is why then, and else a *NoTofuError.
func (e *Engine) Tofu(ctx context.Context, settings config.Settings, download bool) (TofuProgram, error) {
	return target.FindTofu(ctx, e.program(), settings, download)
}
