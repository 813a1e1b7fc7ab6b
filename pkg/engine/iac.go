package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/cluster"
	"hive-test/pkg/iac"
	stackrun "hive-test/pkg/iac/run"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/suite"
	"hive-test/pkg/target"
)

// EndpointName is the name under which runs of suites are kept that are about an endpoint, and no cluster.
const EndpointName = "endpoint"

// endpointCall bounds one call to an endpoint.
const endpointCall = 30 * time.Second

// TestEndpoint runs the suites that need no cluster against an EC2 endpoint, and keeps their results as runs of
// EndpointName.
func (e *Engine) TestEndpoint(ctx context.Context, request Request, endpoint iac.Endpoint) (Outcome, error) {
	request.Name = EndpointName
	return e.do(ctx, string(cluster.PhaseTest), request, func(s *session) error { return s.testEndpoint(ctx, endpoint) })
}

func (s *session) testEndpoint(ctx context.Context, endpoint iac.Endpoint) error {
	s.Secrets.Learn(endpoint.Key.SecretKey)
	if err := errors.Join(s.checkPlan(), s.checkEndpointSuites()); err != nil {
		return err
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if err := endpoint.Reach(ctx); err != nil {
		return Error{ExitConfig, err}
	}
	dir, err := s.Store.NewRun(s.Name, s.verb, s.started)
	if err != nil {
		return Error{ExitConfig, err}
	}
	if err := s.beginIn(dir, progress.Event{Endpoint: endpoint.URL}); err != nil {
		return err
	}
	evidence := evidence{s.Store, s.dir, s.Name}
	manager := &phase.Manager{
		Phases: []phase.Entry{{
			Phase: lifecycle.TestEndpoint(s.suites, suite.Options{
				ArtifactsDir: evidence.Path("suites"), Secrets: s.Secrets.Values(), Inherit: s.Environ,
				Builtins: map[string]suite.Builtin{suite.IaC: s.iacSuite(endpoint, s.StackTofu())},
				Sink:     progress.With(s.Sink, progress.Event{Phase: string(cluster.PhaseTest)}),
			}),
			Timeout: s.Settings.PhaseTimeout(string(cluster.PhaseTest)), Setting: "--timeout-test",
		}},
		Sink: s.Sink, Abort: s.abort, Timeout: s.Settings.Timeout, Setting: "--timeout",
	}
	outcomes, err := manager.Run(ctx)
	return s.end(ctx, outcomes, err)
}

// checkEndpointSuites refuses what takes a cluster.
func (s *session) checkEndpointSuites() error {
	s.Record = s.newRecord()
	if _, err := s.Store.Load(s.Name); !errors.Is(err, state.ErrNotFound) {
		return usage(fmt.Errorf("there is a cluster called %s, and runs without a cluster are kept under that name", s.Name))
	}
	if err := s.checkSuites(); err != nil {
		return err
	}
	for _, spec := range s.suites.Specs {
		if !spec.Builtin {
			return usage(progress.WithHint(fmt.Errorf("suite %s needs a cluster: an endpoint alone takes --suite %s", spec.Title(), suite.IaC),
				"name the cluster and leave --endpoint out"))
		}
	}
	return nil
}

// builtins are the suites of a cluster that are no commands.
func (s *session) builtins(access lifecycle.Access) map[string]suite.Builtin {
	return map[string]suite.Builtin{suite.IaC: s.iacSuite(endpointOf(access), s.StackTofu())}
}

// iacSuite is the suite of Terraform's AWS provider at an endpoint.
func (s *session) iacSuite(endpoint iac.Endpoint, tofu target.TofuOptions) suite.Builtin {
	o := stackrun.Options{Endpoint: endpoint, Tofu: tofu}
	return suite.Builtin{
		Cases: stackrun.Cases(), Lacks: o.Lacks,
		Run: func(ctx context.Context, t *suite.Tester) error {
			o := o
			o.Artifacts, o.Private = t.Artifacts, t.Private
			return stackrun.Run(ctx, o, t)
		},
	}
}

// endpointOf is the gateway of a cluster's first node.
func endpointOf(access lifecycle.Access) iac.Endpoint {
	transport := &http.Transport{DialContext: access.Dial, ForceAttemptHTTP2: true}
	if pem := access.Credentials.CAPEM; pem != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(pem))
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	c := access.Credentials
	return iac.Endpoint{
		URL:    access.URL,
		Key:    awsauth.Key{AccessKey: c.AccessKey, SecretKey: c.SecretKey, Region: cmp.Or(c.Region, suite.DefaultRegion)},
		Client: &http.Client{Transport: transport, Timeout: endpointCall},
	}
}
