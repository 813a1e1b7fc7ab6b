package hive

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/remote"
)

// followTime is how long logs are followed at most.
const followTime = 30 * 24 * time.Hour

// Follow hands each line of hive's logs on every node to line, the last ones first and new ones as they come, with the
// node and the log's name, until ctx ends: then it returns nil. Those that come at about the same time are in the order in
// which they were written. Calls of line do not overlap. It goes on while any node can be followed.
func (c *Cluster) Follow(ctx context.Context, line func(node, log, text string)) error {
	c.LearnSecrets(ctx)
	merged := newLogMerger(line)
	defer merged.flush()
	err := each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		clean := c.cleaner(nil)
		log := ""
		_, err := c.script(ctx, host, "follow.sh", followTime, map[string]string{"HIVE_LINES": "10"}, func(_, text string) {
			if title, ok := strings.CutPrefix(text, "==> "); ok && strings.HasSuffix(title, " <==") {
				written, file := logTitle(strings.TrimSuffix(title, " <=="))
				if !written.IsZero() {
					merged.written(host.Name(), file, written)
					return
				}
				log = file
				return
			}
			if text == "" { // stands before each title
				return
			}
			merged.add(host.Name(), log, clean(text))
		})
		if _, unfinished := errors.AsType[*remote.UnfinishedError](err); unfinished && ctx.Err() != nil {
			return nil
		}
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// logTitle reads what follow.sh prints before a log's lines, or, with the time, before all logs.
func logTitle(title string) (written time.Time, log string) {
	if rest, ok := strings.CutPrefix(title, "@"); ok {
		if text, file, found := strings.Cut(rest, " "); found {
			if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
				written, title = time.Unix(seconds, 0), file
			}
		}
	}
	return written, strings.TrimSuffix(path.Base(title), ".log")
}
