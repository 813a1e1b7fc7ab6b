package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

func (a *app) gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "an EC2 endpoint on this machine, for AWS clients and Terraform's AWS provider",
		Long: `gateway serves the parts of AWS's EC2 and STS APIs that Terraform's AWS provider uses: VPCs, subnets, security groups,
routes, instances, volumes and more, with AWS's errors, states, filters and tags. In front of a cluster, its hive does what
it implements, and the gateway does the rest. Alone, with nothing behind the resources, it is for those who write .tf
files, and for demos. What was made is kept between starts.`,
		Example: `  hive-test gateway start dev1
  eval "$(hive-test gateway env dev1)"; tofu apply
  hive-test gateway start --standalone
  hive-test gateway stop --wipe`,
	}
	cmd.AddCommand(
		a.gatewayStartCommand(), a.gatewayStopCommand(), a.gatewayStatusCommand(), a.gatewayEnvCommand(),
		a.gatewayLogsCommand(),
	)
	return cmd
}

func (a *app) gatewayStartCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start [NAME]",
		Short: "start a gateway in the background, in front of a cluster or alone",
		Long: `start has a gateway run in the background and returns when it answers. Where one runs already, nothing is done. Its keys
stay the same from one start to the next. Other machines reach it only if it has a certificate.

In front of cluster NAME, it first asks the hive there which actions it implements, once for each version of hive, and
changes nothing by that. Those are then done by hive, and what hive does not keep or tell of them, such as tags, is kept by
the gateway. All others are the gateway's. --answer decides otherwise for an action; gateway status NAME shows who answers
which.`,
		Example: `  hive-test gateway start dev1
  hive-test gateway start dev1 --answer DescribeImages=gateway
  hive-test gateway start --standalone --listen 127.0.0.1:0 --lag 2s`,
		Args: cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	flags := cmd.Flags()
	var r engine.GatewayRequest
	alone := flags.Bool("standalone", false, "answer every action here, without a cluster")
	flags.StringVar(&r.Listen, "listen", "127.0.0.1:9990", "`address:port` to serve; port 0 is any that is free")
	flags.StringVar(&r.Region, "region", "", "region that it plays alone (default ap-southeast-2)")
	flags.StringArrayVar(&r.Answers, "answer", nil, "`ACTION=WHO` answers: cluster or gateway; may be repeated")
	flags.StringVar(&r.Account, "account", "000000000000", "account `id` that it plays")
	flags.DurationVar(&r.Lag, "lag", time.Second, "how long what is made or ended is pending")
	flags.StringVar(&r.CertFile, "tls-cert", "", "`file` with the endpoint's certificate; empty: HTTP")
	flags.StringVar(&r.KeyFile, "tls-key", "", "`file` with the certificate's key")
	flags.StringVar(&r.CAFile, "tls-ca", "", "`file` with the certificates that clients verify it with; empty: the system's")
	flags.StringVar(&r.FaultsFile, "faults", "", "JSON `file` of faults that spoil answers")
	foreground := flags.Bool("foreground", false, "serve until Ctrl-C, with the log on stderr")
	background := flags.Bool("background", false, "used by start")
	_ = flags.MarkHidden("background")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		r.Settings, r.Name = settings, clusterOf(args)
		if err := checkGateway(r, *alone); err != nil {
			return err
		}
		if *foreground || *background {
			return a.serveGateway(ctx, r, *background)
		}
		return a.startGateway(ctx, r)
	})
	return cmd
}

// clusterOf is the cluster that a gateway is in front of, by the arguments; empty: the gateway stands alone.
func clusterOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// checkGateway refuses what start cannot be asked for.
func checkGateway(r engine.GatewayRequest, alone bool) error {
	switch {
	case !alone && r.Name == "":
		return usage(progress.WithHint(errors.New("name the cluster that it is to be in front of, or say that it stands alone"),
			"hive-test gateway start --standalone"))
	case alone && r.Name != "":
		return usage(fmt.Errorf("a gateway that stands alone is in front of no cluster: leave out %s or --standalone", r.Name))
	case r.Name == "" && len(r.Answers) > 0:
		return usage(errors.New("--answer is for a gateway in front of a cluster"))
	case r.Name != "" && r.Region != "":
		return usage(errors.New("--region is for a gateway that stands alone: in front of a cluster it is the cluster's"))
	case !regexp.MustCompile(`^[0-9]{12}$`).MatchString(r.Account):
		return usage(fmt.Errorf("--account %q: an account id has 12 digits", r.Account))
	case r.Region != "" && !regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`).MatchString(r.Region):
		return usage(fmt.Errorf("--region %q is no name of a region, like ap-southeast-2", r.Region))
	case r.Lag < 0:
		return usage(fmt.Errorf("--lag %s is negative", r.Lag))
	case (r.CertFile == "") != (r.KeyFile == ""):
		return usage(errors.New("--tls-cert and --tls-key go together"))
	}
	return nil
}

// serveGateway serves a gateway in this process.
func (a *app) serveGateway(ctx context.Context, r engine.GatewayRequest, background bool) error {
	a.signals.looking()
	ready := func(err error) error {
		if err == nil {
			fmt.Fprintf(a.Stderr, "gateway listens on %s, until Ctrl-C\n", r.Listen)
		}
		return err
	}
	if background {
		ready = process.Ready
	}
	e, err := engine.Open(ctx, engine.Options{Version: programVersion()})
	if err != nil {
		return ready(err)
	}
	err = e.GatewayServe(ctx, r, a.Stderr, ready)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// startGateway starts a gateway in the background, and tells how it is reached.
func (a *app) startGateway(ctx context.Context, r engine.GatewayRequest) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	which := []string{"--standalone"}
	if r.Name != "" {
		which = []string{r.Name}
	}
	for _, answer := range r.Answers {
		which = append(which, "--answer", answer)
	}
	serve := exec.Command(self, append([]string{"gateway", "start"}, append(which,
		"--background", "--clusters-dir", r.Settings.ClustersDir, "--listen", r.Listen,
		"--region", r.Region, "--account", r.Account, "--lag", r.Lag.String(), "--tls-cert", r.CertFile, "--tls-key", r.KeyFile,
		"--tls-ca", r.CAFile, "--faults", r.FaultsFile,
	)...)...)
	serve.Env = a.Environ
	return a.work(r.Settings, func(e *engine.Engine) error {
		info, started, err := e.GatewayStart(ctx, r, serve)
		if err != nil {
			return err
		}
		if !started {
			a.tell("a gateway runs already: the flags of this start have no effect")
		}
		return a.printGateway(info, r.Settings)
	})
}

func (a *app) printGateway(info gateway.Info, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, info); structured {
		return err
	}
	columns := []column{
		{name: "ENDPOINT"}, {name: "CLUSTER"}, {name: "REGION"}, {name: "ACCOUNT", drop: 1}, {name: "PID", right: true}, {name: "STARTED", drop: 2},
	}
	return a.page(a.Stdout, settings).table(columns, [][]string{{
		info.Endpoint, cmp.Or(info.Cluster, "-"), info.Region, info.Account, strconv.Itoa(info.PID), info.Started.Local().Format(time.DateTime),
	}})
}

// printAnswers tells people who answers which actions, where a cluster is behind the gateway.
func (a *app) printAnswers(info gateway.Info, settings config.Settings) error {
	if info.Hive == nil || settings.Output != "table" {
		return nil
	}
	by := map[string][]string{}
	for _, action := range slices.Sorted(maps.Keys(info.Hive.Actions)) {
		who := info.Hive.Actions[action]
		by[who] = append(by[who], action)
	}
	p := a.page(a.Stdout, settings)
	return errors.Join(
		p.line(fmt.Sprintf("hive of %s: %s; what it does not tell is kept in the %s", info.Cluster, info.Hive.Version, info.Hive.Kept), ""),
		p.line(fmt.Sprintf("done by the cluster (%d): %s", len(by[ec2.InCluster]), strings.Join(by[ec2.InCluster], ", ")), "  "),
		p.line(fmt.Sprintf("done by the gateway (%d): %s", len(by[ec2.Here]), strings.Join(by[ec2.Here], ", ")), "  "),
	)
}

func (a *app) gatewayStopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stop [NAME]",
		Short:   "stop the gateway; its resources stay",
		Long:    `stop ends the gateway that runs in the background. Its resources and keys stay for the next start, unless --wipe is given.`,
		Example: `  hive-test gateway stop`,
		Args:    cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	wipe := cmd.Flags().Bool("wipe", false, "delete its resources, keys and log, too")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			stopped, err := e.GatewayStop(ctx, settings, clusterOf(args), *wipe)
			switch {
			case err != nil:
				return err
			case stopped:
				a.tell("the gateway is stopped")
			default:
				a.tell("no gateway runs")
			}
			return nil
		})
	})
	return cmd
}

func (a *app) gatewayStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status [NAME]",
		Short:   "the gateway that runs",
		Long:    `status shows the gateway that runs. It exits 10 if none does.`,
		Example: `  hive-test gateway status -o json`,
		Args:    cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			info, err := e.Gateway(settings, clusterOf(args))
			if err != nil {
				return err
			}
			if err := a.printGateway(info, settings); err != nil {
				return err
			}
			return a.printAnswers(info, settings)
		})
	})
	return cmd
}

func (a *app) gatewayEnvCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env [NAME]",
		Short: "variables for AWS clients and Terraform that use the gateway",
		Long: `env prints what AWS clients need to use the gateway: region, endpoint, and the names of the files with the keys (no key
itself). What would make them use other keys is unset. --format is as that of hive-test env.

The AWS CLI takes its endpoint from there from 1.29 and 2.13 on; an older one needs --endpoint-url "$AWS_ENDPOINT_URL".`,
		Example: `  eval "$(hive-test gateway env)"; aws ec2 describe-vpcs`,
		Args:    cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	format := cmd.Flags().String("format", "bash", "`form`: "+strings.Join(envForms(), ", "))
	cmd.RunE = run(func(_ context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		form, err := printedForm(cmd.Flags().Changed("format"), *format, settings)
		if err == nil {
			err = checkEnvFormat(form)
		}
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			vars, foreign, err := e.GatewayEnvironment(settings, clusterOf(args))
			if err != nil {
				return err
			}
			return printEnvironment(a.Stdout, remote.Environment{Set: vars, Unset: foreign}, form)
		})
	})
	return cmd
}

func (a *app) gatewayLogsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "the requests that the gateway has answered",
		Long: `logs shows the requests that the gateway has answered, with the error code of those that it refused. -f shows those that
come, too, until Ctrl-C.`,
		Example: `  hive-test gateway logs -f`,
		Args:    cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	follow := cmd.Flags().BoolP("follow", "f", false, "show requests as they come, until Ctrl-C")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if settings.Output == "yaml" {
			return usage(errors.New("--output yaml is not possible: -o json prints a line for each request"))
		}
		a.signals.looking()
		return a.work(settings, func(e *engine.Engine) error {
			return e.GatewayLog(ctx, settings, clusterOf(args), *follow, func(entry gateway.Entry) error {
				return a.unlessUnread(a.printEntry(entry, settings))
			})
		})
	})
	return cmd
}

// printEntry prints a request that was answered as one line.
func (a *app) printEntry(e gateway.Entry, settings config.Settings) error {
	if settings.Output == "json" {
		return json.NewEncoder(a.Stdout).Encode(e)
	}
	text := fmt.Sprintf("%s  %-3d  %-40s  %6.1f ms", e.Time.Local().Format(time.TimeOnly), e.Status, e.Action, e.Seconds*1000)
	if e.Code != "" {
		text += "  " + e.Code + ": " + e.Message
	}
	_, err := fmt.Fprintln(a.Stdout, progress.Clean(text))
	return err
}
