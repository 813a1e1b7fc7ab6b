package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/hive"
	"hive-test/pkg/iac"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/suite"
	"hive-test/pkg/wait"
)

// GatewayRequest is what GatewayStart and GatewayServe are asked for.
type GatewayRequest struct {
	Settings config.Settings
	Name     string // of the cluster that it is in front of; empty: it stands alone
	// Answers has an action be answered by the cluster or by the gateway: ACTION=cluster, ACTION=gateway.
	Answers []string
	Listen  string        // ADDRESS:PORT; port 0 is any that is free
	Region  string        // empty: the cluster's, or ap-southeast-2
	Account string        // 12 digits
	Lag     time.Duration // how long resources are pending
	// CertFile and KeyFile are the endpoint's certificate, which CAFile has signed. Empty: HTTP, on loopback addresses.
	CertFile, KeyFile, CAFile string
	FaultsFile                string // that spoil answers; empty: none
}

// gatewayPlace is where the gateway in front of a cluster, or the one that stands alone, keeps what it knows.
func gatewayPlace(settings config.Settings, name string) gateway.Place {
	dir := filepath.Join(settings.ClustersDir, ".gateway", "standalone")
	if name != "" {
		dir = filepath.Join(settings.ClustersDir, ".gateway", "cluster", name)
	}
	return gateway.Place{Dir: dir}
}

// errNoGateway means that no gateway runs in front of a cluster, or that none stands alone.
func errNoGateway(name string) error {
	err := progress.WithHint(errors.New("no gateway runs"), "hive-test gateway start --standalone")
	if name != "" {
		err = progress.WithHint(fmt.Errorf("no gateway runs in front of %s", name), "hive-test gateway start "+name)
	}
	return Error{ExitUnhealthy, err}
}

// GatewayStart has a gateway run in the background, by a command that calls GatewayServe with the same request. It
// reports whether one was started: else the one that runs already is returned.
func (e *Engine) GatewayStart(ctx context.Context, r GatewayRequest, serve *exec.Cmd) (gateway.Info, bool, error) {
	if _, err := e.serving(ctx, r, io.Discard); err != nil {
		return gateway.Info{}, false, err
	}
	place := gatewayPlace(r.Settings, r.Name)
	info, started, err := place.Start(ctx, serve)
	if err != nil {
		return gateway.Info{}, false, Error{ExitConfig, progress.WithHint(err, "its log: "+place.LogFile())}
	}
	return *info, started, gatewayProfiles(place, *info)
}

// GatewayServe serves a gateway until ctx ends, and calls ready once, when it answers or with why it does not.
func (e *Engine) GatewayServe(ctx context.Context, r GatewayRequest, log io.Writer, ready func(error) error) error {
	o, err := e.serving(ctx, r, log)
	if err != nil {
		return ready(err)
	}
	place := gatewayPlace(r.Settings, r.Name)
	return place.Serve(ctx, o, func(err error) error {
		if err != nil {
			return ready(Error{ExitConfig, err})
		}
		return ready(nil)
	})
}

// serving checks what is asked for, and finds the cluster that the gateway is to be in front of.
func (e *Engine) serving(ctx context.Context, r GatewayRequest, log io.Writer) (gateway.Serving, error) {
	o := gateway.Serving{
		Listen: r.Listen, Region: cmp.Or(r.Region, "ap-southeast-2"), Account: r.Account, Lag: r.Lag, CertFile: r.CertFile,
		KeyFile: r.KeyFile, CAFile: r.CAFile, Version: e.Version, Log: log,
	}
	if r.FaultsFile != "" {
		faults, err := gateway.ReadFaults(r.FaultsFile)
		if err != nil {
			return o, usage(fmt.Errorf("--faults: %w", err))
		}
		o.Faults = faults
	}
	if err := o.Check(); err != nil {
		return o, usage(err)
	}
	if r.Name == "" {
		return o, nil
	}
	behind, err := e.behind(ctx, r)
	if err != nil {
		return o, err
	}
	o.Cluster, o.Region = behind, behind.Key.Region
	return o, nil
}

// behind is the cluster of a request as a gateway calls it.
func (e *Engine) behind(ctx context.Context, r GatewayRequest) (*gateway.Behind, error) {
	answers, err := answersOf(r.Answers)
	if err != nil {
		return nil, usage(err)
	}
	s, err := e.recorded(ctx, "gateway", Request{Name: r.Name, Settings: r.Settings})
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.Record.AWS == nil {
		return nil, Error{ExitConfig, progress.WithHint(
			fmt.Errorf("hive is not formed on cluster %s: there is nothing to be in front of", r.Name),
			"hive-test configure "+r.Name)}
	}
	vars := lifecycle.Environment(s.Record, s.Store)
	endpoint, err := iac.EndpointOf("", func(name string) string { return vars[name] })
	if err != nil {
		return nil, Error{ExitConfig, fmt.Errorf("reading the access to cluster %s: %w", r.Name, err)}
	}
	behind := &gateway.Behind{
		Name: r.Name, Key: endpoint.Key, Transport: endpoint.Client.Transport, Answers: answers,
		Formed: "formed " + s.Record.Phases[cluster.PhaseConfigure].Started.UTC().Format(time.RFC3339),
	}
	token, err := os.ReadFile(s.Store.Path(s.Name, lifecycle.NATSTokenFile))
	if err == nil {
		behind.NATS.Token = strings.TrimSpace(string(token))
		behind.NATS.CA, err = os.ReadFile(vars["AWS_CA_BUNDLE"])
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // it was formed by an earlier version of this program: its NATS is not used
	}
	for _, node := range s.Record.Nodes {
		if node.Management.IsValid() {
			behind.Endpoints = append(behind.Endpoints, suite.URL(node.Management, suite.GatewayPort))
			if behind.NATS.CA != nil {
				behind.NATS.URLs = append(behind.NATS.URLs, "nats://"+netip.AddrPortFrom(node.Management, hive.NATSPort).String())
			}
		}
	}
	return behind, err
}

// answersOf reads who is to answer actions.
func answersOf(list []string) (map[string]string, error) {
	answers := map[string]string{}
	for _, text := range list {
		action, who, _ := strings.Cut(text, "=")
		switch {
		case !wire.Knows(action):
			return nil, fmt.Errorf("--answer %s: there is no action %q", text, action)
		case who != ec2.InCluster && who != ec2.Here:
			return nil, fmt.Errorf("--answer %s: say %s=%s or %[2]s=%[4]s", text, action, ec2.InCluster, ec2.Here)
		}
		answers[action] = who
	}
	return answers, nil
}

// GatewayStop ends the gateway in front of a cluster, or the one that stands alone where no name is given, and reports
// whether one ran. With wipe, its resources and keys are deleted, too.
func (e *Engine) GatewayStop(ctx context.Context, settings config.Settings, name string, wipe bool) (bool, error) {
	place := gatewayPlace(settings, name)
	stopped, err := place.Stop(ctx)
	if err != nil || !wipe {
		return stopped, err
	}
	var server *store.Server
	if name != "" {
		behind, err := e.behind(ctx, GatewayRequest{Settings: settings, Name: name})
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return stopped, err
		}
		if err == nil {
			server = &behind.NATS
		}
	}
	return stopped, place.Wipe(ctx, server)
}

// endGateway ends the gateway in front of the cluster once that is gone, and deletes what it has kept.
func (s *session) endGateway(ctx context.Context) {
	place := gatewayPlace(s.Settings, s.Name.String())
	if _, err := os.Stat(place.Dir); err != nil {
		return
	}
	if _, err := s.Store.Load(s.Name); !errors.Is(err, state.ErrNotFound) {
		return
	}
	if _, err := s.GatewayStop(context.WithoutCancel(ctx), s.Settings, s.Name.String(), true); err != nil {
		progress.Warn(s.Sink, fmt.Sprintf("the gateway in front of %s stays: %v", s.Name, err), "")
	}
}

// Gateway returns the gateway that runs in front of a cluster, or that stands alone; an Error of ExitUnhealthy: none does.
func (e *Engine) Gateway(settings config.Settings, name string) (gateway.Info, error) {
	info, err := gatewayPlace(settings, name).Running()
	if err == nil && info == nil {
		err = errNoGateway(name)
	}
	if err != nil {
		return gateway.Info{}, err
	}
	return *info, nil
}

// GatewayEnvironment returns what AWS clients need to use the gateway that runs, and the variables that would make them
// use another. Its keys are in a file that it names.
func (e *Engine) GatewayEnvironment(
	settings config.Settings, name string,
) (vars map[string]string, foreign []string, err error) {
	info, err := e.Gateway(settings, name)
	if err != nil {
		return nil, nil, err
	}
	place := gatewayPlace(settings, name)
	vars = map[string]string{
		"AWS_REGION": info.Region, "AWS_DEFAULT_REGION": info.Region, "AWS_ENDPOINT_URL": info.Endpoint,
		"AWS_PROFILE": suite.Profiles()[0], "AWS_DEFAULT_PROFILE": suite.Profiles()[0],
		"AWS_CONFIG_FILE":             config.Absolute(filepath.Join(place.Dir, "aws", "config")),
		"AWS_SHARED_CREDENTIALS_FILE": config.Absolute(filepath.Join(place.Dir, "aws", "credentials")),
		"TF_VAR_mulgaos_endpoint":     info.Endpoint,
	}
	if info.CAFile != "" {
		vars["AWS_CA_BUNDLE"] = info.CAFile
	}
	return vars, lifecycle.ForeignVariables(vars), nil
}

// gatewayProfiles writes the files by which AWS clients find the gateway and its keys.
func gatewayProfiles(place gateway.Place, info gateway.Info) error {
	keys, err := place.Keys()
	if err != nil {
		return err
	}
	profile := suite.Profile{
		Region: info.Region, Endpoint: info.Endpoint, CAFile: info.CAFile, AccessKey: keys.AccessKey, SecretKey: keys.SecretKey,
	}
	dir := filepath.Join(place.Dir, "aws")
	return errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "config"), profile.Config(), 0o600),
		os.WriteFile(filepath.Join(dir, "credentials"), profile.Credentials(), 0o600),
	)
}

// logPause is how often a log that is followed is looked at.
const logPause = 100 * time.Millisecond

// GatewayLog tells of the requests that the gateway has answered, and with follow of those that it answers until ctx
// ends.
func (e *Engine) GatewayLog(
	ctx context.Context, settings config.Settings, name string, follow bool, tell func(gateway.Entry) error,
) error {
	file, err := os.Open(gatewayPlace(settings, name).LogFile())
	if errors.Is(err, fs.ErrNotExist) {
		return errNoGateway(name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewReader(file)
	var line []byte
	for {
		part, err := lines.ReadBytes('\n')
		line = append(line, part...)
		var entry gateway.Entry
		switch {
		case err == nil:
			if json.Unmarshal(line, &entry) == nil && entry.RequestID != "" { // else it is what the program itself said
				if err := tell(entry); err != nil {
					return err
				}
			}
			line = nil
		case !errors.Is(err, io.EOF):
			return err
		case !follow:
			return nil
		default:
			if wait.Sleep(ctx, logPause) != nil {
				return nil
			}
		}
	}
}
