package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// contention is how long the last id is remembered between processes.
const contention = 5 * time.Second

// idSource finds free VM ids. Processes that share a temporary directory take
// turns through a lock file there; others do not know of each other.
type idSource struct {
	api        *api
	random     bool
	start, end int
	lock, seq  string
}

func newIDSource(a *api, tmp string, random bool, start, end int) *idSource {
	if start == 0 {
		start = 10000
	}
	if end == 0 {
		end = 99999
	}
	s := &idSource{
		api: a, random: random, start: start, end: end,
		lock: filepath.Join(tmp, "terraform-provider-proxmox-id-gen.lock"),
		seq:  filepath.Join(tmp, "terraform-provider-proxmox-id-gen.seq"),
	}
	if unlock, err := lockedfile.MutexAt(s.lock).Lock(); err == nil {
		defer unlock()
		if st, err := os.Stat(s.seq); err == nil && time.Since(st.ModTime()) > contention {
			_ = os.Remove(s.seq)
		}
	}
	return s
}

// next returns a free id. Failures other than 403 are repeated every 200 ms
// for 6 s and all of them are listed in the error.
func (s *idSource) next(ctx context.Context) (int, error) {
	unlock, err := lockedfile.MutexAt(s.lock).Lock()
	if err != nil {
		return 0, fmt.Errorf("unable to lock the ID generator: %w", err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, contention+time.Second)
	defer cancel()

	var wanted, id int
	var failed []error
	policy := retryPolicy{
		delay: fixedDelay(200 * time.Millisecond), lastOnly: true,
		retryIf: func(err error) bool {
			he, ok := errors.AsType[*httpError](err)
			return !ok || he.code != http.StatusForbidden
		},
		onRetry: func(err error) {
			if wanted != 0 && strings.Contains(err.Error(), "already exists") {
				wanted, err = s.ask(ctx, 0)
			}
			failed = append(failed, err)
		},
	}
	err = policy.do(ctx, func() (err error) {
		if wanted, err = s.candidate(wanted); err != nil {
			return err
		}
		id, err = s.ask(ctx, wanted)
		return err
	})
	if err != nil {
		return 0,
			fmt.Errorf("unable to retrieve the next available VM identifier: %w", errors.Join(append(failed, err)...))
	}
	if s.random {
		return id, nil
	}
	if err := lockedfile.Write(s.seq, bytes.NewBufferString(strconv.Itoa(id)), 0o666); err != nil {
		return 0, fmt.Errorf("unable to write the ID generator file: %w", err)
	}
	return id, nil
}

// candidate is the id to ask for; 0 leaves the choice to the server.
func (s *idSource) candidate(current int) (int, error) {
	if s.random {
		return s.start + rand.N(s.end-s.start), nil
	}
	if current != 0 {
		return current, nil
	}
	b, err := lockedfile.Read(s.seq)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("unable to read the ID generator sequence file: %w", err)
	}
	last, err := strconv.Atoi(string(b))
	if err != nil {
		return 0, fmt.Errorf("unable to parse the ID generator file: %w", err)
	}
	return last + 1, nil
}

func (s *idSource) ask(ctx context.Context, id int) (int, error) {
	params := url.Values{}
	if id != 0 {
		params.Set("vmid", strconv.Itoa(id))
	}
	var answer struct{ Data any }
	if err := s.api.do(ctx, http.MethodGet, "cluster/nextid", params, &answer); err != nil {
		return 0, fmt.Errorf("error retrieving next VM ID: %w", err)
	}
	if answer.Data == nil {
		return 0, errNoData
	}
	n, err := strconv.Atoi(fmt.Sprint(answer.Data))
	if err != nil {
		return 0, fmt.Errorf("error retrieving next VM ID: %w", err)
	}
	return n, nil
}
