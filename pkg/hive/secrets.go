package hive

import (
	"context"
	"path"
	"strings"
	"time"
)

// learnTimeout bounds the reading of one node's secrets.
const learnTimeout = 5 * time.Second

// LearnSecrets tells Options.Secrets what the nodes keep secret now. A node that cannot be asked, or is not initialized
// yet, has none to tell.
func (c *Cluster) LearnSecrets(ctx context.Context) {
	if c.options.Secrets == nil {
		return
	}
	_ = each(ctx, c.hosts, func(ctx context.Context, host Host) error { // what is not known cannot be masked by value
		result, err := c.script(ctx, host, "secrets.sh", learnTimeout, nil, nil)
		if err != nil {
			return err
		}
		files, err := untar(result.Stdout)
		c.options.Secrets.Learn(knownSecrets(files)...)
		return err
	})
}

// knownSecrets are the values that must not be seen of what keep_secrets keeps, in whatever directory.
func knownSecrets(files map[string]string) []string {
	var values []string
	for name, text := range files {
		switch path.Base(name) {
		case "hive.toml", "spinifex.toml", "credentials", "predastore.toml", "nats.conf",
			"bootstrap.json", "awsgw-bootstrap.json", "system-credentials.json":
			values = append(values, secretValues(text)...)
		case "join-token", "master.key", "ca.key", "server.key":
			values = append(values, text)
		case "join-token.logged":
			values = append(values, strings.Fields(text)...)
		}
	}
	return longEnough(values)
}

// longEnough drops what is too short to be taken out of every text.
func longEnough(values []string) []string {
	var kept []string
	for _, value := range values {
		if value = strings.TrimSpace(value); len(value) >= minSecret {
			kept = append(kept, value)
		}
	}
	return kept
}
