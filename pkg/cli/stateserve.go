package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/stateserver"
)

// serverMemory is above which a server collects garbage sooner: states can be large, and several come at once.
const serverMemory = 512 << 20

// serverGarbage is how much garbage there may be, in percent of what is used: of a few megabytes, it would else be collected
// with every few requests.
const serverGarbage = 800

// stateServeCommand is `hive-test state serve`.
func (a *app) stateServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve states to the HTTP backend of OpenTofu and Terraform, until Ctrl-C",
		Long: `serve answers the HTTP backend of OpenTofu and Terraform at /state/NAME, with locks, until Ctrl-C or TERM. Every version of
a state is kept, with who wrote it and when. What was answered with success is on stable storage. Several servers can share
one storage, and a server that is killed leaves nothing to be mended.

Users and the hashes of their passwords are in a file; each may have all states or some. Other machines reach the server by
TLS only, with a certificate that is given or with one of its own, whose fingerprint it prints. With identities of age or a
passphrase, all that is stored is encrypted. The log, a line of JSON for each request, goes to stderr.

Keys of an S3 bucket are those of the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or of AWS_PROFILE.`,
		Example: `  htpasswd -nB alice >users
  hive-test state serve --storage ./states --users users
  hive-test state serve --listen :9980 --storage s3://states/team --users users`,
		Args: cobra.NoArgs,
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		settings, err := load()
		if err == nil {
			err = noDocument(settings, cmd.CommandPath()+" prints no document")
		}
		if err != nil {
			return err
		}
		a.signals.looking()
		if a.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(serverMemory)
		}
		if a.Getenv("GOGC") == "" {
			debug.SetGCPercent(serverGarbage)
		}
		e, err := engine.Open(ctx, engine.Options{Version: programVersion(), Environ: a.Environ, Secrets: a.known})
		if err != nil {
			return err
		}
		err = e.StateServe(ctx, settings, a.Stderr, a.tellStateServer)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	return cmd
}

// tellStateServer says where a server of states listens.
func (a *app) tellStateServer(info stateserver.Info) {
	a.tell(fmt.Sprintf("states are served at %s/state/NAME, until Ctrl-C", info.Endpoint))
	if info.Exposed {
		a.warn("it is plain HTTP: whoever is on the way reads passwords and states")
	}
	if info.Fingerprint != "" {
		a.tell("its certificate, at /certificate, has the SHA-256 fingerprint " + info.Fingerprint)
	}
}
