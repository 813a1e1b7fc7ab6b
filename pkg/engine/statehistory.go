package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hive-test/pkg/stateserver"
	"hive-test/pkg/stateserver/client"
	"hive-test/pkg/target"
)

// versions asks the server that has the cluster's state.
func (s *session) versions(ctx context.Context) (*client.Client, error) {
	backend, err := s.HTTPBackend(ctx)
	if err != nil {
		return nil, err
	}
	s.Secrets.Learn(backend.Password)
	c, err := client.New(client.Options{
		Address: backend.Address, User: backend.User, Password: backend.Password, CA: backend.CA, Insecure: backend.Insecure,
	})
	if err != nil {
		return nil, s.historyError(err)
	}
	return c, nil
}

func (s *session) historyError(err error) error {
	return Error{ExitConfig, fmt.Errorf("the versions of the state of cluster %q: %w", s.Name, err)}
}

// StateHistory returns the newest versions of a cluster's state, so many at most, the newest first.
func (e *Engine) StateHistory(ctx context.Context, request Request, limit int) (history stateserver.History, err error) {
	err = e.withVersions(ctx, "history", request, e.states, func(_ *session, c *client.Client) error {
		history, err = c.History(ctx, limit)
		return err
	})
	return history, err
}

// withVersions is about the versions of the state of a cluster that open opens.
func (e *Engine) withVersions(
	ctx context.Context, verb string, request Request, open func(context.Context, string, Request) (*session, error),
	do func(*session, *client.Client) error,
) error {
	s, err := open(ctx, verb, request)
	if err != nil {
		return err
	}
	defer s.close()
	c, err := s.versions(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = do(s, c)
	status, isStatus := errors.AsType[*client.StatusError](err)
	if isStatus && status.Code == 404 {
		return usage(fmt.Errorf("cluster %q: %s", s.Name, status.Text))
	}
	if isStatus || errors.Is(err, client.ErrNoHistory) {
		return s.historyError(err)
	}
	return err
}

// version returns the state as it was in a version, as it is without encryption.
func (s *session) version(ctx context.Context, c *client.Client, number int64) (text string, err error) {
	raw, err := c.Version(ctx, number)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "hive-test-state-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, fmt.Sprintf("version %d", number))
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return "", err
	}
	return s.PlainState(ctx, file)
}

// StateDiff returns what differs between two versions of a cluster's state; to is 0: the state as it is now.
func (e *Engine) StateDiff(ctx context.Context, request Request, from, to int64) (changes []target.StateChange, err error) {
	err = e.withVersions(ctx, "diff", request, e.states, func(s *session, c *client.Client) error {
		before, err := s.version(ctx, c, from)
		if err != nil {
			return err
		}
		after := ""
		if to == 0 {
			after, err = s.Target.State(ctx)
		} else {
			after, err = s.version(ctx, c, to)
		}
		if err != nil {
			return err
		}
		changes, err = diffTexts(before, after)
		return err
	})
	return changes, err
}

func diffTexts(before, after string) ([]target.StateChange, error) {
	was, err := target.ParseState(before)
	if err != nil {
		return nil, err
	}
	is, err := target.ParseState(after)
	return target.DiffStates(was, is), err
}

// StateRollback writes a version of before again, as the newest. The user is asked unless yes says so. It returns the state as it is then.
func (e *Engine) StateRollback(ctx context.Context, request Request, number int64, yes bool) (now State, err error) {
	err = e.withVersions(ctx, "rollback", request, e.holdStates, func(s *session, c *client.Client) error {
		text, err := s.version(ctx, c, number)
		if err != nil {
			return err
		}
		if err := s.agreed(yes, fmt.Sprintf("write version %d of the state of cluster %s again?", number, s.Name)); err != nil {
			return err
		}
		if err := s.ReplaceState(ctx, text); err != nil {
			return err
		}
		now, err = s.readState(ctx)
		return err
	})
	return now, err
}
