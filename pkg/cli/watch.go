package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

const (
	watchInterval    = 2 * time.Second
	shortestInterval = 100 * time.Millisecond
)

func (a *app) watch(ctx context.Context, name string, interval time.Duration, settings config.Settings) error {
	a.signals.looking()
	ctx, stop := whileRead(ctx, a.Stdout)
	defer stop()
	w := a.watcher(settings)
	if w.screen {
		defer w.onResize()()
	}
	formed := false
	request := engine.WatchRequest{Request: a.request(name, settings), Verb: "status", Pause: func() time.Duration { return interval }}
	if w.screen {
		request.Sink = w.notes
	}
	var shown error
	screen := a.renderer(settings)
	if isTerminal(a.Stderr) {
		_ = screen.Close() // a live view would tear what is shown; what is told later is plain lines
	}
	err := a.workOn(screen, func(e *engine.Engine) error {
		err := e.Watch(ctx, request, func(status engine.Status) (bool, error) {
			formed = status.Formed
			return false, w.show(statusOf(status))
		})
		if shown = w.end(errors.Is(err, engine.ErrGone), name); errors.Is(shown, syscall.EPIPE) {
			shown = nil
		}
		return err
	})
	timeUp := errors.Is(err, context.DeadlineExceeded)
	if err := errors.Join(shown, watched(ctx, err)); err != nil {
		return err
	}
	if timeUp && !formed {
		return engine.Error{Code: engine.ExitUnhealthy}
	}
	return nil
}

// watched is the error of a watch that ended with err. The user, the end of the cluster, that of the time and that of
// whoever reads end it as they should.
func watched(ctx context.Context, err error) error {
	signal, stopped := errors.AsType[engine.SignalError](context.Cause(ctx))
	switch {
	case stopped && signal.Signal == syscall.SIGINT, errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrGone),
		errors.Is(err, syscall.EPIPE):
		return nil
	case stopped:
		return engine.Error{Code: engine.SignalCode(signal.Signal)}
	}
	return err
}

// watcher shows look after look.
type watcher struct {
	out    io.Writer
	format string
	screen bool // out is a terminal, and tables are drawn on it in place
	size   func() (paper page, height int)
	last   []byte
	before map[string]string // what was told of each node, and of the cluster under the empty name

	mu    sync.Mutex // of what a screen shows
	drawn *statusJSON
	noted []string // what was told beside the looks, shown below them
}

// onResize draws the last look anew when the window gets another size, until stop is called.
func (w *watcher) onResize() (stop func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	var loop sync.WaitGroup
	loop.Go(func() {
		for range resized {
			w.mu.Lock()
			if w.drawn != nil {
				_ = w.draw(*w.drawn) // the next look says what is wrong
			}
			w.mu.Unlock()
		}
	})
	return func() {
		signal.Stop(resized)
		close(resized)
		loop.Wait()
	}
}

func (a *app) watcher(settings config.Settings) *watcher {
	tables := settings.Output == "table" || settings.Output == "wide"
	return &watcher{
		out: a.Stdout, format: settings.Output, screen: tables && isTerminal(a.Stdout), before: map[string]string{},
		size: func() (page, int) { return a.page(a.Stdout, settings), a.height(a.Stdout) },
	}
}

// watchJSON is a line of `status --watch -o json`. Gone: the cluster is no more, and this is the last line.
type watchJSON struct {
	Time time.Time `json:"time"`
	Gone bool      `json:"gone,omitempty"`
	statusJSON
}

// notes keeps what people should know for below the table; the rest goes to next.
func (w *watcher) notes(next progress.Sink) progress.Sink {
	return progress.SinkFunc(func(e progress.Event) {
		if e.Kind != progress.Warning && e.Kind != progress.Info {
			next.Emit(e)
			return
		}
		const most = 8
		w.mu.Lock()
		defer w.mu.Unlock()
		w.noted = append(w.noted, time.Now().Format(time.TimeOnly)+"  "+progress.Clean(e.Message))
		w.noted = w.noted[max(0, len(w.noted)-most):]
	})
}

func (w *watcher) show(document statusJSON) error {
	switch {
	case w.screen:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.draw(document)
	case w.format == "json", w.format == "yaml":
		return w.document(watchJSON{statusJSON: document})
	}
	now := time.Now()
	if err := w.line(now, "", clusterWords(document)); err != nil {
		return err
	}
	for _, n := range document.Nodes {
		if err := w.line(now, n.Name, nodeWords(n)); err != nil {
			return err
		}
	}
	return w.removed(now, document)
}

// document prints one that differs from the last.
func (w *watcher) document(d watchJSON) error {
	raw, err := json.Marshal(d)
	plain := []byte(engine.WithoutPorts(string(raw)))
	if err != nil || bytes.Equal(plain, w.last) {
		return err
	}
	w.last = plain
	d.Time = time.Now().UTC()
	if w.format == "yaml" {
		if _, err := fmt.Fprintln(w.out, "---"); err != nil {
			return err
		}
		return printYAML(w.out, d)
	}
	return json.NewEncoder(w.out).Encode(d)
}

// line tells what is new of a node, or of the cluster.
func (w *watcher) line(now time.Time, node, words string) error {
	if w.before[node] == words {
		return nil
	}
	w.before[node] = words
	_, err := fmt.Fprintf(w.out, "%s  %s\n", now.Local().Format(time.DateTime), words)
	return err
}

// removed tells of nodes that the cluster has no more.
func (w *watcher) removed(now time.Time, document statusJSON) error {
	for name := range w.before {
		there := name == "" || slices.ContainsFunc(
			document.Nodes, func(n nodeStatusJSON) bool { return n.Name == name },
		)
		if there {
			continue
		}
		if err := w.line(now, name, name+": no node of the cluster any more"); err != nil {
			return err
		}
		delete(w.before, name)
	}
	return nil
}

// Terminals: the other screen, with the cursor hidden, and what is written over what was there.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// draw shows a look. The caller holds mu.
func (w *watcher) draw(document statusJSON) error {
	paper, height := w.size()
	text, err := w.picture(paper, document)
	if err != nil {
		return err
	}
	start := home
	if w.drawn == nil {
		start = enterScreen + home
	}
	w.drawn = &document
	_, err = io.WriteString(w.out, start+strings.ReplaceAll(firstLines(text, height), "\n", clearLine+"\n")+clearBelow)
	return err
}

// picture is what a look shows on a page.
func (w *watcher) picture(paper page, document statusJSON) (string, error) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s  (Ctrl-C ends)\n\n", time.Now().Format(time.DateTime))
	paper.Writer = &text
	if err := printStatus(paper, document, w.format == "wide"); err != nil {
		return "", err
	}
	for _, note := range w.noted {
		if err := paper.line(note, "  "); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// firstLines returns as much of text as a screen of that height shows: more would scroll, and the top would be lost.
// Height 0: all of it.
func firstLines(text string, height int) string {
	lines := strings.SplitAfter(text, "\n")
	if height <= 1 || len(lines) <= height { // the last one is empty
		return text
	}
	return strings.Join(lines[:height-2], "") + fmt.Sprintf("… %d lines more: the window is too low\n", len(lines)-height+1)
}

// end leaves the last look on a terminal, and tells if the cluster is gone.
func (w *watcher) end(gone bool, name string) error {
	w.mu.Lock()
	last := w.drawn
	w.drawn = nil
	w.mu.Unlock()
	if w.screen && last != nil {
		paper, _ := w.size()
		text, err := w.picture(paper, *last)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w.out, "%s%s", leaveScreen, text); err != nil {
			return err
		}
	}
	switch {
	case !gone:
		return nil
	case w.format == "json" || w.format == "yaml":
		return w.document(watchJSON{Gone: true, statusJSON: statusJSON{
			Schema: outputSchema, Cluster: name, Nodes: []nodeStatusJSON{}, Next: []string{},
		}})
	}
	return w.line(time.Now(), "", "cluster "+name+": gone")
}

// clusterWords tell the state of a cluster in a line.
func clusterWords(s statusJSON) string {
	words := []string{fmt.Sprintf("cluster %s: %s %s, %s", s.Cluster, s.Phase, s.State, s.formed())}
	return strings.Join(append(words, s.clusterReasons...), "; ") // what is wrong with nodes is told with them
}

// nodeWords tell the state of a node in a line.
func nodeWords(n nodeStatusJSON) string {
	words := []string{"VM " + dash(n.Power)}
	if n.Management != "" {
		words = append(words, n.Management)
	}
	words = append(words, "SSH "+sshWord(n.SSH))
	switch {
	case n.Error != "":
		words = append(words, "not healthy: "+n.Error)
	case n.Health.Status != "":
		words = append(words, "healthy")
	}
	return n.Name + ": " + engine.WithoutPorts(strings.Join(words, ", "))
}
