package hive

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

const (
	formedMarker  = "Cluster formation complete!"
	stillRunning  = 124         // await-init.sh: it has not ended
	joinSettling  = time.Second // how long other joins may still fail by themselves after the first
	startTimeout  = time.Minute // of start.sh, which waits for NATS for a quarter of it at most
	formationRest = time.Minute // beyond the formation timeout: grace, writing, connecting
)

// Stop ends hive on the nodes of the course, a blocked init or join of an earlier run included, and proves that its
// port is free. NATS ends on no node before all else has ended on all: a daemon writes its state through a quorum of
// them when it ends, and waits 10 seconds where there is none.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.step(ctx, StepStop, func(ctx context.Context) error {
		hosts := c.nodesOf(StepStop)
		stop := func(keep string) error {
			return c.onEach(ctx, hosts, "stop.sh", c.options.StopTimeout+shortTimeout, map[string]string{
				"HIVE_STOP_TIMEOUT": seconds(c.options.StopTimeout), "HIVE_STOP_KEEP": keep,
			})
		}
		if len(hosts) > 1 {
			_ = stop("nats") // what fails there fails again
		}
		return stop("")
	})
}

// Init begins to form the cluster on node 1 and returns once other nodes can join; a cluster of one is then complete.
// It does nothing if all nodes belong to one complete cluster already, unless Options.Force is set.
func (c *Cluster) Init(ctx context.Context) error {
	return c.step(ctx, StepInit, func(ctx context.Context) error {
		reform, err := c.prepare(ctx)
		if err != nil {
			return err
		}
		c.reform = &reform
		if !reform {
			return skip("the nodes have formed one cluster already")
		}
		c.forget()
		return c.beginFormation(ctx)
	})
}

// prepare decides whether the cluster is to be formed, and clears nodes of what an earlier formation has left there.
func (c *Cluster) prepare(ctx context.Context) (reform bool, err error) {
	states, err := c.states(ctx)
	if err != nil {
		return false, err
	}
	verdict, why := judgeFormation(states, c.options.Force)
	switch verdict {
	case keepFormation:
		return false, nil
	case refuseFormation:
		return false, c.refused(why)
	case formAnew:
		c.info(StepInit, "", why)
		err = c.onEach(ctx, c.hosts, "reset.sh", c.options.StopTimeout, nil)
	}
	return true, err
}

// refused is the failure of forming what only --force may form.
func (c *Cluster) refused(why string) error {
	return &StepError{
		Err:  errors.New(why),
		hint: fmt.Sprintf("hive-test configure %s --force forms it anew of all nodes, and drops what hive holds", c.name),
	}
}

type formationVerdict int

const (
	form            formationVerdict = iota // nothing is there
	formAnew                                // what is there has to go first
	keepFormation                           // one complete cluster is there
	refuseFormation                         // something is there that only --force may drop
)

// judgeFormation says what is to be done with nodes in these states, and why.
func judgeFormation(states []nodeState, force bool) (formationVerdict, string) {
	initialized := false
	var used []string
	for _, state := range states {
		initialized = initialized || state.initialized
		if state.used {
			used = append(used, state.host.Name())
		}
	}
	problem := formationProblem(states)
	switch {
	case !initialized && len(used) == 0:
		return form, ""
	case force:
		return formAnew, "the cluster is formed anew, as --force asks"
	case problem == "":
		return keepFormation, ""
	case len(used) == 0:
		return formAnew, "an earlier formation was left half done (" + problem + "): it is cleared and begun again"
	default:
		return refuseFormation,
			problem + ", but hive was in use on " + strings.Join(used, ", ")
	}
}

// formationProblem says why the nodes are not one complete cluster, or nothing.
func formationProblem(states []nodeState) string {
	for _, state := range states {
		name := state.host.Name()
		switch {
		case !state.initialized:
			return name + " is not initialized"
		case state.node != name:
			return fmt.Sprintf("%s was initialized as %q", name, state.node)
		case state.era != "" && state.written != state.era:
			return fmt.Sprintf("%s was initialized by %s, and its program is %s now", name, state.written, state.era)
		case state.nodes != len(states):
			return fmt.Sprintf(
				"%s belongs to a cluster of %s, not %d", name, progress.Count(state.nodes, "node"), len(states),
			)
		case state.ca != states[0].ca:
			return name + " has another certificate authority than " + states[0].host.Name()
		}
	}
	return ""
}

func (c *Cluster) beginFormation(ctx context.Context) error {
	result, err := c.script(ctx, c.leader(), "init.sh", shortTimeout, map[string]string{
		"HIVE_NODES":             fmt.Sprint(len(c.hosts)),
		"HIVE_FORMATION_TIMEOUT": seconds(c.options.FormationTimeout) + "s",
		"HIVE_FORCE":             yes(c.options.Force),
		"HIVE_FLAGS":             strings.Join(c.options.InitFlags, "\n"),
	}, nil)
	for line := range strings.Lines(string(result.Stdout)) {
		if note, ok := strings.CutPrefix(strings.TrimSpace(line), "note "); ok {
			c.sink.Emit(progress.Event{Kind: progress.Note, Step: StepInit, Node: c.leader().Name(), Message: note})
		}
	}
	if err == nil && len(c.hosts) == 1 {
		err = c.awaitInit(ctx, c.options.FormationTimeout, "")
	} else if err == nil {
		err = c.awaitFormationServer(ctx)
	}
	if err != nil {
		c.endFormation(ctx)
		err = c.blameLeader(err)
		c.addLogs(ctx, err, c.formationLog)
	}
	return err
}

func (c *Cluster) blameLeader(err error) error {
	if _, ok := errors.AsType[nodeErrors](err); ok {
		return err
	}
	return nodeErrors{{Node: c.leader().Name(), Err: err}}
}

// awaitInit waits until init on node 1 has ended well, and has said marker.
func (c *Cluster) awaitInit(ctx context.Context, limit time.Duration, marker string) error {
	wait := "0"
	if limit > 0 {
		wait = seconds(limit)
	}
	result, err := c.script(ctx, c.leader(), "await-init.sh", limit+shortTimeout, map[string]string{
		"HIVE_AWAIT": wait, "HIVE_MARKER": marker,
	}, nil)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok {
		switch exit.Result.ExitCode {
		case stillRunning:
			return errInitRuns
		case 125:
			return fmt.Errorf("hive admin init was killed")
		}
		return fmt.Errorf("hive admin init exited with %d", exit.Result.ExitCode)
	}
	if err == nil && strings.TrimSpace(string(result.Stdout)) != "said" {
		// An init that finds the node initialized exits with 0 and forms nothing.
		return fmt.Errorf("hive admin init has ended without saying %q", marker)
	}
	return err
}

var errInitRuns = errors.New("hive admin init has not ended in time")

// awaitFormationServer waits until the formation server answers on node 1, or init has ended.
func (c *Cluster) awaitFormationServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.FormationTimeout,
		fmt.Errorf("the formation server did not answer within %s", c.options.FormationTimeout))
	defer cancel()
	probe := c.newProber(nil)
	defer probe.close()
	shown := c.awaited(StepInit)
	for attempt := range (wait.Backoff{First: 50 * time.Millisecond, Max: time.Second, Factor: 1.5}).Tries(ctx) {
		err := c.formationServerAnswers(ctx, probe)
		if err == nil {
			return nil
		}
		shown.Pending("the formation server of "+c.leader().Name(), err.Error())
		if attempt%4 == 0 {
			if err := c.awaitInit(ctx, 0, formedMarker); err == nil ||
				!errors.Is(err, errInitRuns) && ctx.Err() == nil {
				return errors.Join(fmt.Errorf("hive admin init has ended before other nodes could join"), err)
			}
		}
	}
	return context.Cause(ctx)
}

// formationServerAnswers asks /formation/health over HTTP and HTTPS. The later formation server shows the CA itself as
// its certificate: what it is verified with was read from node 1 over SSH.
func (c *Cluster) formationServerAnswers(ctx context.Context, probe *prober) error {
	url := address(c.leader(), ManagerPort) + "/formation/health"
	answer, err := probe.get(ctx, "http://"+url)
	if err == nil && answer.wantsTLS() {
		return c.tlsFormationServerAnswers(ctx, "https://"+url)
	}
	if err != nil {
		return err
	}
	return judgeFormationHealth(answer)
}

func (c *Cluster) tlsFormationServerAnswers(ctx context.Context, url string) error {
	access, err := c.readAccess(ctx)
	if err != nil {
		return err
	}
	probe := c.newProber(access.CA)
	defer probe.close()
	answer, err := probe.get(ctx, url)
	if _, otherName := errors.AsType[x509.HostnameError](err); otherName {
		// The CA's certificate need not name an address. Its token file then says that the server is there.
		token, err := c.joinToken(ctx)
		if err == nil && token == "" {
			err = errors.New("it has made no join token yet")
		}
		return err
	}
	if err != nil {
		return err
	}
	return judgeFormationHealth(answer)
}

func judgeFormationHealth(answer answer) error {
	if answer.code != http.StatusOK || strings.TrimSpace(string(answer.body)) != "ok" {
		return fmt.Errorf("/formation/health answers %d", answer.code)
	}
	return nil
}

func (c *Cluster) joinToken(ctx context.Context) (string, error) {
	result, err := c.script(ctx, c.leader(), "token.sh", shortTimeout, nil, nil)
	token := strings.TrimSpace(string(result.Stdout))
	c.options.Secrets.Learn(token)
	return token, err
}

// Join joins all other nodes at once and waits until node 1 says that the cluster is complete. When a node fails,
// formation can no longer succeed: the others and init are then ended, and only nodes that failed by themselves are
// blamed.
func (c *Cluster) Join(ctx context.Context) error {
	return c.step(ctx, StepJoin, func(ctx context.Context) error {
		if len(c.hosts) == 1 {
			return skip("there is one node only")
		}
		if formed, err := c.alreadyFormed(ctx); err != nil {
			return err
		} else if formed {
			return skip("the nodes have formed one cluster already")
		}
		token, err := c.joinToken(ctx)
		if err != nil {
			err = c.blameLeader(err)
		} else {
			err = c.formTogether(ctx, token)
		}
		if err != nil {
			c.endFormation(ctx)
			c.addLogs(ctx, err, c.formationLog)
		}
		return err
	})
}

// alreadyFormed tells whether Init has found, or would find, one complete cluster.
func (c *Cluster) alreadyFormed(ctx context.Context) (bool, error) {
	if c.reform != nil {
		return !*c.reform, nil
	}
	states, err := c.states(ctx)
	return err == nil && formationProblem(states) == "", err
}

// formationLog is the log that tells how formation went on a node.
func (c *Cluster) formationLog(host Host) []string {
	if host == c.leader() {
		return []string{"init"}
	}
	return []string{"join"}
}

func (c *Cluster) formTogether(ctx context.Context, token string) error {
	var abort failFast
	defer abort.stop()
	return each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		var err error
		if host == c.leader() {
			err = c.awaitInit(ctx, c.options.FormationTimeout+formationRest, formedMarker)
		} else {
			err = c.join(ctx, host, token)
		}
		if err == nil {
			return nil
		}
		if !abort.begin(func() { c.endFormation(ctx) }) {
			return nil // ended by us because of another node
		}
		return err
	})
}

// failFast ends a formation once, a little after the first failure, so that others that fail by themselves are blamed
// too.
type failFast struct {
	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// begin reports whether the caller's failure is its own.
func (a *failFast) begin(end func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer == nil {
		a.timer = time.AfterFunc(joinSettling, func() {
			a.mu.Lock()
			a.ended = true
			a.mu.Unlock()
			end()
		})
	}
	return !a.ended
}

func (a *failFast) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}

func (c *Cluster) join(ctx context.Context, host Host, token string) error {
	limit := c.options.FormationTimeout + formationRest
	_, err := c.script(ctx, host, "join.sh", limit+shortTimeout, map[string]string{
		"HIVE_LEADER":     address(c.leader(), ManagerPort),
		"HIVE_JOIN_TOKEN": token,
		"HIVE_FORCE":      yes(c.options.Force),
		"HIVE_FLAGS":      strings.Join(c.options.JoinFlags, "\n"),
		"HIVE_AWAIT":      seconds(limit),
	}, nil)
	if err == nil {
		c.info(StepJoin, host.Name(), "joined")
	}
	return err
}

// endFormation ends what is left of a formation on all nodes, as well as can be: the next run's Stop does it again.
func (c *Cluster) endFormation(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortTimeout)
	defer cancel()
	_ = c.onEach(ctx, c.hosts, "end-formation.sh", shortTimeout, nil)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
