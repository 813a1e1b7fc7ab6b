package iac

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"hive-test/pkg/awsauth"
)

// callTime bounds one call.
const callTime = 30 * time.Second

// EndpointOf returns the endpoint at an address, which where it is empty is that of AWS_ENDPOINT_URL, with the keys,
// region and certificates that AWS clients would take from the environment.
func EndpointOf(address string, getenv func(string) string) (Endpoint, error) {
	e := Endpoint{
		URL: cmp.Or(address, getenv("AWS_ENDPOINT_URL_EC2"), getenv("AWS_ENDPOINT_URL")),
		Key: awsauth.Key{Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), "ap-southeast-2")},
	}
	if e.URL == "" {
		return e, errors.New("no endpoint is named, and AWS_ENDPOINT_URL is not set")
	}
	if u, err := url.Parse(e.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return e, fmt.Errorf("%q is no address of an endpoint, like https://10.0.0.1:9999", e.URL)
	}
	var err error
	if e.Key.AccessKey, e.Key.SecretKey, err = keysOf(getenv); err != nil {
		return e, err
	}
	e.Client, err = clientOf(getenv("AWS_CA_BUNDLE"))
	return e, err
}

// keysOf returns the keys of the environment, or of the profile in the file that it names.
func keysOf(getenv func(string) string) (access, secret string, err error) {
	if access, secret = getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"); access != "" && secret != "" {
		return access, secret, nil
	}
	file := getenv("AWS_SHARED_CREDENTIALS_FILE")
	if file == "" {
		return "", "", errors.New("there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
			"AWS_SHARED_CREDENTIALS_FILE")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	profile := cmp.Or(getenv("AWS_PROFILE"), "default")
	keys := awsauth.ParseProfiles(string(data))[profile]
	access, secret = keys["aws_access_key_id"], keys["aws_secret_access_key"]
	if access == "" || secret == "" {
		return "", "", fmt.Errorf("%s has no keys of profile %s", file, profile)
	}
	return access, secret, nil
}

// clientOf returns a client that verifies certificates with those of a file, or with the system's where it is empty.
func clientOf(file string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificates", file)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: callTime}, nil
}
