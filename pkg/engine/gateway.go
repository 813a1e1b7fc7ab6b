package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/gateway"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
	"hive-test/pkg/wait"
)

// GatewayRequest is what GatewayStart and GatewayServe are asked for.
type GatewayRequest struct {
	Settings config.Settings
	Listen   string // ADDRESS:PORT; port 0 is any that is free
	Region   string
	Account  string        // 12 digits
	Lag      time.Duration // how long resources are pending
	// CertFile and KeyFile are the endpoint's certificate, which CAFile has signed. Empty: HTTP, on loopback addresses.
	CertFile, KeyFile, CAFile string
	FaultsFile                string // that spoil answers; empty: none
}

// gatewayPlace is where the gateway that stands alone keeps what it knows.
func gatewayPlace(settings config.Settings) gateway.Place {
	return gateway.Place{Dir: filepath.Join(settings.ClustersDir, ".gateway", "standalone")}
}

// ErrNoGateway means that no gateway runs.
var ErrNoGateway = progress.WithHint(errors.New("no gateway runs"), "hive-test gateway start --standalone")

// GatewayStart has a gateway run in the background, by a command that calls GatewayServe with the same request. It
// reports whether one was started: else the one that runs already is returned.
func (e *Engine) GatewayStart(ctx context.Context, r GatewayRequest, serve *exec.Cmd) (gateway.Info, bool, error) {
	if _, err := r.standalone(e.Version, io.Discard); err != nil {
		return gateway.Info{}, false, err
	}
	place := gatewayPlace(r.Settings)
	info, started, err := place.Start(ctx, serve)
	if err != nil {
		return gateway.Info{}, false, Error{ExitConfig, progress.WithHint(err, "its log: "+place.LogFile())}
	}
	return *info, started, gatewayProfiles(place, *info)
}

// GatewayServe serves a gateway until ctx ends, and calls ready once, when it answers or with why it does not.
func (e *Engine) GatewayServe(ctx context.Context, r GatewayRequest, log io.Writer, ready func(error) error) error {
	o, err := r.standalone(e.Version, log)
	if err != nil {
		return ready(err)
	}
	place := gatewayPlace(r.Settings)
	return place.Serve(ctx, o, func(err error) error {
		if err != nil {
			return ready(Error{ExitConfig, err})
		}
		return ready(nil)
	})
}

// standalone checks what is asked for.
func (r GatewayRequest) standalone(version string, log io.Writer) (gateway.Standalone, error) {
	o := gateway.Standalone{
		Listen: r.Listen, Region: r.Region, Account: r.Account, Lag: r.Lag, CertFile: r.CertFile, KeyFile: r.KeyFile,
		CAFile: r.CAFile, Version: version, Log: log,
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
	return o, nil
}

// GatewayStop ends the gateway, and reports whether one ran. With wipe, its resources and keys are deleted, too.
func (e *Engine) GatewayStop(ctx context.Context, settings config.Settings, wipe bool) (bool, error) {
	place := gatewayPlace(settings)
	stopped, err := place.Stop(ctx)
	if err == nil && wipe {
		err = os.RemoveAll(place.Dir)
	}
	return stopped, err
}

// Gateway returns the gateway that runs, or ErrNoGateway.
func (e *Engine) Gateway(settings config.Settings) (gateway.Info, error) {
	info, err := gatewayPlace(settings).Running()
	if err == nil && info == nil {
		err = Error{ExitUnhealthy, ErrNoGateway}
	}
	if err != nil {
		return gateway.Info{}, err
	}
	return *info, nil
}

// GatewayEnvironment returns what AWS clients need to use the gateway that runs, and the variables that would make them
// use another. Its keys are in a file that it names.
func (e *Engine) GatewayEnvironment(settings config.Settings) (vars map[string]string, foreign []string, err error) {
	info, err := e.Gateway(settings)
	if err != nil {
		return nil, nil, err
	}
	place := gatewayPlace(settings)
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
	ctx context.Context, settings config.Settings, follow bool, tell func(gateway.Entry) error,
) error {
	file, err := os.Open(gatewayPlace(settings).LogFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Error{ExitUnhealthy, ErrNoGateway}
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
