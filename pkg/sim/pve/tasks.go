package pve

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tasksKept bounds the list of finished tasks.
const tasksKept = 500

// taskRecord is a task as the API shows it. Exit is empty while it runs.
type taskRecord struct {
	UPID   string
	Node   string
	Type   string
	ID     string
	User   string
	Token  string `json:",omitempty"`
	PID    int
	PStart int64
	Start  int64
	End    int64
	Exit   string
	Log    []string
}

// task is a running worker.
type task struct {
	ctx  context.Context
	s    *Server
	rec  *taskRecord
	who  identity
	fail string   // a fault's text
	warn []string // what a fault makes it warn of
}

// logf adds a line to the task's log.
func (t *task) logf(format string, args ...any) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.rec.Log = append(t.rec.Log, fmt.Sprintf(format, args...))
}

// work takes the task's time. Workers call it after their checks and before their effects; a fault fails them here.
func (t *task) work() error {
	if !sleep(t.ctx, t.s.opt.TaskDuration) {
		return fmt.Errorf("received interrupt")
	}
	if t.fail != "" {
		return fmt.Errorf("%s", t.fail)
	}
	for _, text := range t.warn {
		t.logf("WARN: %s", text)
	}
	return nil
}

// startTask starts a worker and returns its UPID. Called with the mutex held; run is called without it.
func (s *Server) startTask(who identity, node, kind, id string, c *call, run func(*task) error) string {
	s.state.NextPID++
	now := time.Now()
	rec := &taskRecord{
		Node: node, Type: kind, ID: id, User: who.user, Token: who.token, PID: s.state.NextPID,
		PStart: now.UnixMilli() / 10 & 0xffffffff, Start: now.Unix(),
	}
	rec.UPID = fmt.Sprintf(
		"UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, rec.PID, rec.PStart, rec.Start, kind, id, who.name(),
	)
	t := &task{ctx: s.ctx, s: s, rec: rec, who: who}
	if c != nil && c.fault != nil {
		t.fail, t.warn = c.fault.TaskError, c.fault.TaskWarnings
	}
	s.state.Tasks = append(s.state.Tasks, rec)
	if len(s.state.Tasks) > tasksKept {
		s.state.Tasks = slices.Delete(s.state.Tasks, 0, len(s.state.Tasks)-tasksKept)
	}
	s.active[rec.UPID] = t
	s.wg.Go(func() { s.runTask(t, run) })
	return rec.UPID
}

func (s *Server) runTask(t *task, run func(*task) error) {
	err := run(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.rec.End = time.Now().Unix()
	t.rec.Exit = "OK"
	last := "TASK OK"
	if n := len(t.warn); n > 0 && err == nil {
		t.rec.Exit = fmt.Sprintf("WARNINGS: %d", n)
		last = "TASK " + t.rec.Exit
	}
	if err != nil {
		t.rec.Exit = strings.TrimSpace(err.Error())
		last = "TASK ERROR: " + t.rec.Exit
	}
	t.rec.Log = append(t.rec.Log, last)
	delete(s.active, t.rec.UPID)
	s.changed()
	s.log.Info("task ended", "type", t.rec.Type, "id", t.rec.ID, "node", t.rec.Node, "exit", t.rec.Exit)
}

// vmTask is a task that holds a VM's lock while it runs.
func (s *Server) vmTask(c *call, kind string, vmid int, run func(*task) error) string {
	return s.startTask(c.who, c.node, kind, strconv.Itoa(vmid), c, func(t *task) error {
		unlock, err := s.lockVM(t.ctx, vmid, s.opt.LockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		return run(t)
	})
}

// lockVM waits for the lock of a VM, as PVE waits for the lock file of its configuration.
func (s *Server) lockVM(ctx context.Context, vmid int, timeout time.Duration) (func(), error) {
	s.mu.Lock()
	l := s.vmLocks[vmid]
	if l == nil {
		l = make(chan struct{}, 1)
		s.vmLocks[vmid] = l
	}
	s.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("received interrupt")
	case <-timer.C:
		return nil, failf("can't lock file '/var/lock/qemu-server/lock-%d.conf' - got timeout", vmid)
	}
}

// endLostTasks closes the records of tasks that a crash has cut off.
func (s *Server) endLostTasks() {
	for _, t := range s.state.Tasks {
		if t.Exit == "" {
			t.Exit, t.End = "unexpected status", time.Now().Unix()
		}
	}
}

// findTask resolves {upid} on {node}.
func (s *Server) findTask(c *call) (*taskRecord, error) {
	upid := c.get("upid")
	if !upidPattern.MatchString(upid) {
		return nil, badParam("upid", "unable to parse worker upid")
	}
	for _, t := range s.state.Tasks {
		if t.UPID != upid || t.Node != c.node {
			continue
		}
		own := t.User == c.who.user && (c.who.token == "" || t.Token == c.who.token)
		if !own {
			if err := s.need(c.who, "/nodes/"+c.node, "Sys.Audit"); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	return nil, badParam("upid", "no such task")
}

func taskStatus(s *Server, c *call) (any, error) {
	t, err := s.findTask(c)
	if err != nil {
		return nil, err
	}
	out := map[string]any{
		"upid": t.UPID, "node": t.Node, "type": t.Type, "id": t.ID, "user": t.User, "pid": t.PID, "pstart": t.PStart,
		"starttime": t.Start, "status": "running",
	}
	if t.Token != "" {
		out["tokenid"] = t.Token
	}
	if t.Exit != "" {
		out["status"], out["exitstatus"] = "stopped", t.Exit
	}
	return out, nil
}

func taskLog(s *Server, c *call) (any, error) {
	t, err := s.findTask(c)
	if err != nil {
		if e, ok := err.(*apiError); ok && e.errs["upid"] == "no such task" {
			// An object instead of a list: observed.
			return list{data: map[string]any{"n": 1, "t": "unable to open file - No such file or directory"}, total: 1},
				nil
		}
		return nil, err
	}
	lines := []map[string]any{}
	start, limit := c.int("start", 0), c.int("limit", 50)
	for i, l := range t.Log {
		if i >= start && (limit == 0 || len(lines) < limit) {
			lines = append(lines, map[string]any{"n": i + 1, "t": l})
		}
	}
	return list{data: lines, total: len(t.Log)}, nil
}

func taskStop(s *Server, c *call) (any, error) {
	_, err := s.findTask(c)
	return nil, err
}

func taskIndex(s *Server, _ *call) (any, error) {
	return []map[string]any{{"name": "log"}, {"name": "status"}}, nil
}

func taskList(s *Server, c *call) (any, error) {
	all := s.can(c.who, "/nodes/"+c.node, false, "Sys.Audit")
	source := c.get("source")
	rows := []map[string]any{}
	for i := len(s.state.Tasks) - 1; i >= 0; i-- {
		t := s.state.Tasks[i]
		running := t.Exit == ""
		switch {
		case t.Node != c.node,
			!all && t.User != c.who.user,
			c.has("vmid") && t.ID != c.get("vmid"),
			c.has("typefilter") && t.Type != c.get("typefilter"),
			c.has("userfilter") && !strings.Contains(t.User, c.get("userfilter")),
			c.has("since") && t.Start < int64(c.int("since", 0)),
			c.has("until") && t.Start > int64(c.int("until", 0)),
			c.bool("errors") && (running || t.Exit == "OK"), // warnings are listed with the errors (PVE::API2::Tasks)
			running && (source == "" || source == "archive"),
			!running && source == "active":
			continue
		}
		rows = append(rows, t.row())
	}
	total := len(rows)
	start := min(c.int("start", 0), total)
	return list{data: rows[start:min(start+c.int("limit", 50), total)], total: total}, nil
}

func (t *taskRecord) row() map[string]any {
	row := map[string]any{
		"upid": t.UPID, "node": t.Node, "pid": t.PID, "pstart": t.PStart, "starttime": t.Start, "type": t.Type,
		"id":   t.ID,
		"user": t.User,
	}
	if t.Token != "" {
		row["tokenid"] = t.Token
	}
	if t.Exit != "" {
		row["endtime"], row["status"] = t.End, t.Exit
	}
	return row
}

func clusterTasks(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	for i := len(s.state.Tasks) - 1; i >= 0 && len(rows) < 25; i-- {
		t := s.state.Tasks[i]
		if t.User == c.who.user || s.can(c.who, "/nodes/"+t.Node, false, "Sys.Audit") {
			row := t.row()
			row["saved"] = "1"
			rows = append(rows, row)
		}
	}
	return rows, nil
}
