package opentofu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
)

const (
	// tries is how often one step is done at most. What was done stays done: each try has less to do.
	tries = 5
	// firstPause is the pause after the first try; it doubles, up to lastPause. PVE gives a lock up after 10 s.
	firstPause = time.Second
	lastPause  = 10 * time.Second
)

// passingTexts match what goes away by itself. Everything else fails at once: a second try would only cost time or,
// where an id turned out to be taken, do harm. The texts were recorded from PVE 8.4 and bpg/proxmox 0.111.
func passingTexts() *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.Join([]string{
		`can't lock file '[^']*' - got timeout`, `got lock request timeout`, // a VM, a storage or user.cfg is in use
		`got no worker upid`, `start worker failed`, // the daemon could not fork
		`HTTP 50[234]`,                                                           // a proxy before the API did not reach it
		`HTTP 59[569]`, `\b59[569] (?:Connection|No route|Broken pipe|Too many)`, // the API server did not reach the hypervisor
		`connection reset by peer`, `(?:: |\b)EOF\b`, `server closed idle connection`, `broken pipe`, // the answer was lost
	}, "|"))
}

// passing tells whether all that went wrong goes away by itself.
func passing(err error) bool {
	failure, ok := errors.AsType[*deploy.Failure](err)
	if !ok || len(failure.Problems) == 0 || failure.Step == "tofu init" {
		return false
	}
	texts := passingTexts()
	return !slices.ContainsFunc(failure.Problems, func(p deploy.Problem) bool {
		text := strings.Join(strings.Fields(p.Detail), " ")
		return !texts.MatchString(text) || strings.Contains(text, "already exists")
	})
}

// retry does something until it ends well, fails for good or was tried often enough, and tells of every further try.
func (r *run) retry(ctx context.Context, do func() error) error {
	pause := r.owner.options.Pause
	if pause <= 0 {
		pause = firstPause
	}
	for try := 2; ; try++ {
		err := do()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		if try > tries {
			return fmt.Errorf("after %d tries: %w", tries, err)
		}
		// Two runs that met on one lock must not meet again.
		wait := pause + rand.N(pause/2+1)
		r.owner.options.Sink.Emit(progress.Event{
			Time: time.Now().UTC(), Kind: progress.Warning,
			Message: fmt.Sprintf("%v; that passes: trying again in %s (try %d of %d)", err, wait.Round(100*time.Millisecond), try, tries),
		})
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(wait):
		}
		pause = min(2*pause, lastPause)
	}
}

// name adds to a failure which nodes are not complete.
func (r *run) name(err error, request deploy.Request) error {
	failure, ok := errors.AsType[*deploy.Failure](err)
	if !ok {
		return err
	}
	state, stateErr := readState(r.dir.state())
	if stateErr != nil {
		return errors.Join(err, stateErr)
	}
	for i := range failure.Problems {
		failure.Problems[i].Hint = placed(failure.Problems[i], request.Nodes)
	}
	for _, node := range request.Nodes {
		if !state.Complete[node.Name] {
			failure.Missing = append(failure.Missing, node.Name)
		}
	}
	return err
}

// placed is a problem's hint with the hypervisor's name in it, where all its nodes are on one.
func placed(p deploy.Problem, nodes cluster.Nodes) string {
	var hosts []string
	for _, node := range nodes {
		if slices.Contains(p.Nodes, node.Name) && !slices.Contains(hosts, node.Hypervisor) {
			hosts = append(hosts, node.Hypervisor)
		}
	}
	if len(hosts) != 1 {
		return p.Hint
	}
	return strings.ReplaceAll(p.Hint, "that hypervisor", hosts[0])
}

// add puts what one more try did to what those before it did.
func add(sum, more deploy.Result) deploy.Result {
	sum.Changed = sum.Changed || more.Changed
	sum.Created = deploy.SortNodes(append(sum.Created, more.Created...))
	sum.Updated = deploy.SortNodes(append(sum.Updated, more.Updated...))
	sum.Deleted = deploy.SortNodes(append(sum.Deleted, more.Deleted...))
	return sum
}
