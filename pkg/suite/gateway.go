package suite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/cluster"
)

const (
	apiVersion = "2016-11-15" // of the EC2 query API
	maxAnswer  = 8 << 20      // bytes
)

// DefaultRegion is that of a cluster that says none.
const DefaultRegion = "us-east-1"

// gatewayClient makes EC2 query calls to the nodes' gateways. TLS is verified by the cluster's CA and nothing else.
type gatewayClient struct {
	http        *http.Client
	credentials Credentials
	port        int
}

func newGatewayClient(
	c Credentials, port int, dial func(context.Context, string, string) (net.Conn, error),
) (*gatewayClient, error) {
	if c.AccessKey == "" || c.SecretKey == "" {
		return nil, errors.New("the cluster's AWS credentials are not known: configure it first")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.CAPEM)) {
		return nil, errors.New("the cluster's CA certificate is not known: configure it first")
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
	}}
	c.Region = cmp.Or(c.Region, DefaultRegion)
	return &gatewayClient{http: &http.Client{Transport: transport}, credentials: c, port: port}, nil
}

func (c *gatewayClient) close() { c.http.CloseIdleConnections() }

// refusal is an error answer of the gateway.
type refusal struct {
	status        int
	code, message string
	skew          time.Duration // of the gateway's clock against ours
}

// maxSkew is what hive's gateway bears before it answers SignatureDoesNotMatch, as AWS does.
const maxSkew = 5 * time.Minute

func (e *refusal) Error() string {
	text := fmt.Sprintf("the gateway answered %d %s", e.status, e.code)
	if e.message != "" {
		text += ": " + e.message
	}
	if e.code == "SignatureDoesNotMatch" && e.skew.Abs() > maxSkew-30*time.Second {
		text += fmt.Sprintf(": clock skew %s exceeds the allowed %s", e.skew.Abs().Round(time.Second), maxSkew)
	}
	return text
}

// call makes one call and decodes the answer into out, whose XMLName must say which element is expected.
func (c *gatewayClient) call(ctx context.Context, n cluster.Node, action string, signed bool, out any) error {
	if !n.Management.IsValid() {
		return errors.New("the node has no management address")
	}
	form := url.Values{"Action": {action}, "Version": {apiVersion}}.Encode()
	endpoint := URL(n.Management, c.port) + "/"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if signed {
		key := awsauth.Key{
			AccessKey: c.credentials.AccessKey, SecretKey: c.credentials.SecretKey, Region: c.credentials.Region,
		}
		if err := key.Sign(req, []byte(form), "ec2", time.Now()); err != nil {
			return fmt.Errorf("signing %s: %w", action, err)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return explain(ctx, fmt.Errorf("%s: %w", action, err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return explain(ctx, fmt.Errorf("%s: reading the answer: %w", action, err))
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", action, parseRefusal(resp, body))
	}
	if err := xml.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s: the answer is not the expected XML: %w: %s", action, err, excerpt(body))
	}
	return nil
}

// explain puts the deadline's own words in the place of net/http's.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// parseRefusal takes the first <Code> and <Message> of the answer: hive has wrapped them in three ways so far.
func parseRefusal(resp *http.Response, body []byte) *refusal {
	e := &refusal{status: resp.StatusCode}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		e.skew = time.Until(date)
	}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch {
		case start.Name.Local == "Code" && e.code == "":
			_ = decoder.DecodeElement(&e.code, &start)
		case start.Name.Local == "Message" && e.message == "":
			_ = decoder.DecodeElement(&e.message, &start)
		}
	}
	if e.code == "" {
		e.code, e.message = http.StatusText(resp.StatusCode), excerpt(body)
	}
	return e
}

func excerpt(body []byte) string {
	const limit = 200
	return strconv.QuoteToGraphic(string(body[:min(len(body), limit)]))
}

// refusesUnsigned wants the refusal that shows the gateway itself to be there.
func (c *gatewayClient) refusesUnsigned(ctx context.Context, n cluster.Node) error {
	const want = "MissingAuthenticationToken"
	err := c.call(ctx, n, "DescribeRegions", false, new(struct{}))
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		return errors.New("the gateway answered a call without signature: it must refuse it with 403 " + want)
	case !ok:
		return err
	case refused.status != http.StatusForbidden || refused.code != want:
		return fmt.Errorf("a call without signature must be refused with 403 %s: %w", want, err)
	}
	return nil
}

func (c *gatewayClient) describeRegions(ctx context.Context, n cluster.Node) error {
	var answer struct {
		XMLName xml.Name `xml:"DescribeRegionsResponse"`
		Names   []string `xml:"regionInfo>item>regionName"`
	}
	err := c.call(ctx, n, "DescribeRegions", true, &answer)
	return cmp.Or(err, some(answer.Names, "region"))
}

func (c *gatewayClient) describeInstanceTypes(ctx context.Context, n cluster.Node) error {
	var answer struct {
		XMLName xml.Name `xml:"DescribeInstanceTypesResponse"`
		Types   []string `xml:"instanceTypeSet>item>instanceType"`
	}
	err := c.call(ctx, n, "DescribeInstanceTypes", true, &answer)
	return cmp.Or(err, some(answer.Types, "instance type"))
}

// describeInstances wants an answer; a new cluster has no instances.
func (c *gatewayClient) describeInstances(ctx context.Context, n cluster.Node) error {
	var answer struct {
		XMLName xml.Name `xml:"DescribeInstancesResponse"`
	}
	return c.call(ctx, n, "DescribeInstances", true, &answer)
}

func some(names []string, what string) error {
	if slices.ContainsFunc(names, func(n string) bool { return n != "" }) {
		return nil
	}
	return fmt.Errorf("the gateway lists no %s", what)
}
