package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"hive-test/pkg/cluster"
)

const interruptedFile = "interrupted.json"

// Interruption says that a run of a cluster was told to stop by a signal, and what finishes what it has left. It is
// written at the signal and outlasts the process, whatever ends that.
type Interruption struct {
	Time    time.Time `json:"time"`
	Signal  string    `json:"signal"`
	Command string    `json:"command"` // what was interrupted: the verb and the cluster's name
	Finish  string    `json:"finish"`  // the command that removes what is left, or runs suites again
}

// Interrupt notes an interruption in the directory of a cluster that has a record; for any other there is nothing to
// finish. It may be called while the run that holds the cluster is at work in other goroutines.
func (s *Store) Interrupt(name cluster.Name, note Interruption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.Path(name, recordFile)); err != nil {
		return nil
	}
	return s.writeJSON(name, interruptedFile, note)
}

// Interrupted returns the interruption that no later run of the cluster has dealt with.
func (s *Store) Interrupted(name cluster.Name) (note Interruption, found bool) {
	raw, err := os.ReadFile(s.Path(name, interruptedFile))
	if err != nil || json.Unmarshal(raw, &note) != nil {
		return Interruption{}, false
	}
	return note, true
}

// Resume forgets an interruption: the run that holds the cluster now deals with it.
func (s *Store) Resume(name cluster.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Remove(s.Path(name, interruptedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the interruption of cluster %q: %w", name, err)
	}
	return nil
}
