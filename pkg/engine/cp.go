package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// CopyRequest is what Copy is asked for.
type CopyRequest struct {
	Request
	Copy Copy
}

// Copy copies files and directories to nodes, all at once, or from them. What happens on one does not keep the others:
// what was done on each is returned with the error, too.
func (e *Engine) Copy(ctx context.Context, request CopyRequest) (results []CopyResult, err error) {
	var paths map[int][]string
	pick := func(nodes cluster.Nodes) (_ cluster.Nodes, err error) {
		paths, err = request.Copy.paths(nodes)
		return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return len(paths[n.Index]) == 0 }),
			err
	}
	err = e.onNodes(ctx, "cp", request.Request, pick, func(ctx context.Context, r reached) error {
		results, err = copyAll(ctx, r, request.Copy, paths)
		return err
	})
	return results, err
}

// place is one operand of cp: a path here or, where remote, on the nodes that are listed; no list means those of
// --nodes.
type place struct {
	text   string
	remote bool
	nodes  string
	path   string
}

// Copy is what is to be copied to nodes, or from them.
type Copy struct {
	sources []place
	target  place
	which   string // the nodes that :PATH means
}

// parsePlace tells nodes from files as scp does: by a colon before any slash.
func parsePlace(text string) place {
	nodes, rest, found := strings.Cut(text, ":")
	if !found || strings.Contains(nodes, "/") {
		return place{text: text, path: text}
	}
	return place{text: text, remote: true, nodes: nodes, path: rest}
}

// ParseCopy reads operands as scp has them, sources and then the target, and checks all that can be checked without the
// cluster. Which are the nodes that :PATH means; empty: all.
func ParseCopy(operands []string, which string) (Copy, error) {
	if len(operands) < 2 {
		return Copy{}, errors.New("cp needs what is copied and where to, like: hive-test cp NAME ./file :/tmp/")
	}
	asked := Copy{which: which}
	all := false
	for i, operand := range operands {
		p := parsePlace(operand)
		all = all || p.remote && p.nodes == ""
		if i == len(operands)-1 {
			asked.target = p
			break
		}
		if p.path == "" {
			return asked, fmt.Errorf("%q names no file to copy", operand)
		}
		asked.sources = append(asked.sources, p)
	}
	for _, p := range asked.sources {
		if p.remote == asked.target.remote {
			return asked, fmt.Errorf(
				"%s and %s: one must be on nodes, written N:PATH or :PATH, and the other here", p.text,
				asked.target.text,
			)
		}
	}
	if asked.target.path == "" && !asked.target.remote {
		return asked, errors.New("where to copy to is empty: . is this directory")
	}
	if which != "" && !all {
		return asked, errors.New("--nodes says which nodes :PATH means, and no :PATH is there")
	}
	return asked, asked.checkLocal()
}

// checkLocal looks at the sources that are here, before any node is touched.
func (c Copy) checkLocal() error {
	seen := map[string]string{}
	for _, p := range c.sources {
		if p.remote {
			continue
		}
		if _, err := os.Stat(p.path); err != nil {
			return err
		}
		name := filepath.Base(p.path)
		if other, twice := seen[name]; twice {
			return fmt.Errorf("%s and %s would be the same file in %s", other, p.text, c.target.text)
		}
		seen[name] = p.text
	}
	return nil
}

// at says which nodes a place is on.
func (c Copy) at(p place, nodes cluster.Nodes) (cluster.Nodes, error) {
	if p.nodes == "" {
		return listed(c.which)(nodes)
	}
	chosen, err := choose(nodes, p.text, p.nodes)
	if err != nil {
		return nil, progress.WithHint(err, "a file here is written ./"+p.text)
	}
	return chosen, nil
}

// paths are the paths on each node, by its index, that are read or written.
func (c Copy) paths(nodes cluster.Nodes) (map[int][]string, error) {
	places := c.sources
	if c.target.remote {
		places = []place{c.target}
	}
	paths := map[int][]string{}
	for _, p := range places {
		chosen, err := c.at(p, nodes)
		if err != nil {
			return nil, err
		}
		for _, n := range chosen {
			same := func(other string) bool { return path.Base(other) == path.Base(p.path) }
			if slices.ContainsFunc(paths[n.Index], same) {
				return nil, usage(fmt.Errorf(
					"two files of %s would both be %s in %s", n.Name, path.Base(p.path), c.target.text,
				))
			}
			paths[n.Index] = append(paths[n.Index], p.path)
		}
	}
	return paths, nil
}

// CopyResult is what was copied to or from a node.
type CopyResult struct {
	Name      string   `json:"name"`
	Files     int      `json:"files"`
	Bytes     int64    `json:"bytes"`
	Unchanged int      `json:"unchanged"`
	LeftOut   []string `json:"left_out,omitempty"`
	Seconds   float64  `json:"seconds"`
	Error     string   `json:"error,omitempty"`
}

// copyAll copies to or from all nodes at once but those that were not reached. What happens on one does not keep the
// others.
func copyAll(ctx context.Context, r reached, asked Copy, paths map[int][]string) ([]CopyResult, error) {
	group, results := r.group, make([]CopyResult, len(r.group))
	failures := slices.Clone(r.unreached)
	_ = group.Each(ctx, func(ctx context.Context, host *remote.Host) error { // each node's error is kept in its place
		i := slices.Index(group, host)
		node := &results[i]
		node.Name = host.Name()
		if failures[i] == nil {
			failures[i] = copyOne(ctx, r.sink, host, asked, paths[host.Node().Index], len(group) > 1, node)
		}
		if failures[i] != nil {
			node.Error = failures[i].Error()
		}
		return nil
	})
	return results, errors.Join(failures...)
}

// copyOne copies to or from one node and tells what it did.
func copyOne(
	ctx context.Context, sink progress.Sink, host *remote.Host, asked Copy, paths []string, several bool,
	node *CopyResult,
) error {
	started := time.Now()
	var done remote.Copied
	var err error
	if asked.target.remote {
		sources := make([]string, len(asked.sources))
		for i, p := range asked.sources {
			sources[i] = p.path
		}
		done, err = host.CopyTo(ctx, sources, asked.target.path)
	} else {
		target := asked.target.path
		if several {
			target = filepath.Join(target, host.Name()) + string(filepath.Separator)
		}
		done, err = host.CopyFrom(ctx, paths, target)
	}
	node.Files, node.Bytes, node.Unchanged, node.LeftOut = done.Files, done.Bytes, done.Unchanged, done.LeftOut
	node.Seconds = time.Since(started).Seconds()
	tellCopied(sink, host.Name(), done, err)
	return err
}

// tellCopied narrates what was done on a node; what was not is told at the end.
func tellCopied(sink progress.Sink, node string, done remote.Copied, err error) {
	text := fmt.Sprintf(
		"files copied: %d (%s), unchanged: %d", done.Files, progress.Count(int(done.Bytes), "byte"), done.Unchanged,
	)
	if err == nil || done.Files+done.Unchanged > 0 {
		sink.Emit(progress.Event{Kind: progress.Info, Node: node, Message: text})
	}
	if n := len(done.LeftOut); n > 0 {
		sink.Emit(progress.Event{
			Kind: progress.Warning, Node: node,
			Message: fmt.Sprintf("%d left out, neither files nor directories: %s", n, clipped(done.LeftOut, 3)),
		})
	}
}

// clipped is a list of which only the first few are named.
func clipped(list []string, most int) string {
	if len(list) > most {
		list = append(slices.Clone(list[:most]), "...")
	}
	return strings.Join(list, ", ")
}
