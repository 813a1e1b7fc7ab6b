package opentofu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// copyState copies the state, and where providers come from, of one cluster's directory to another's.
func copyState(from, to workdir) error {
	if err := os.MkdirAll(to.dir(), 0o700); err != nil {
		return fmt.Errorf("copy the state: %w", err)
	}
	for source, target := range map[string]string{from.state(): to.state(), from.lockFile(): to.lockFile()} {
		raw, err := os.ReadFile(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(target, raw, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy the state: %w", err)
		}
	}
	return nil
}
