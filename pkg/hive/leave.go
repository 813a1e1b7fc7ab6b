package hive

import (
	"context"
	"strings"

	"hive-test/pkg/remote"
)

// Left is what of hive is on a node that is left.
type Left struct {
	Node     string
	Services []string // that run
	Files    bool     // its directory is there
	Err      error    // why it is not known
}

// Left asks every node, in order, what of hive is there. It never fails as a whole.
func (c *Cluster) Left(ctx context.Context) []Left {
	left := make([]Left, len(c.hosts))
	atOnce(c.hosts, func(i int, host Host) {
		l := &left[i]
		l.Node = host.Name()
		var result remote.Result
		if result, l.Err = c.script(ctx, host, "left.sh", shortTimeout, nil, nil); l.Err != nil {
			return
		}
		for line := range strings.Lines(string(result.Stdout)) {
			switch words := strings.Fields(line); {
			case len(words) > 1 && words[0] == "run":
				l.Services = words[1:]
			case len(words) == 1 && words[0] == "files":
				l.Files = true
			}
		}
	})
	return left
}

// Purge removes what hive and hive-test have put on the nodes: data, configuration, AWS profiles, programs and logs.
// Hive must be stopped.
func (c *Cluster) Purge(ctx context.Context) error {
	return each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		for _, name := range []string{"reset.sh", "purge.sh"} {
			if _, err := c.script(ctx, host, name, shortTimeout, nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
