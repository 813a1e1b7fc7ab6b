package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
)

// plansDir keeps the plans that were saved, one for each cluster, be it there or not.
const plansDir = ".plans"

// PlanPath is the file of a cluster's saved plan, whether or not it exists.
func (s *Store) PlanPath(name cluster.Name) string {
	return filepath.Join(s.root, plansDir, name.String()+".json")
}

// SavePlan writes a cluster's plan.
func (s *Store) SavePlan(name cluster.Name, content []byte) error {
	if err := s.ensureRoot(); err != nil {
		return err
	}
	path := s.PlanPath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if err := renameio.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

// dropPlan removes a cluster's plan, which is of no use any more.
func (s *Store) dropPlan(name cluster.Name) error {
	if err := os.Remove(s.PlanPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
