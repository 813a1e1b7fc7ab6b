package s3store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hive-test/pkg/awsauth"
)

// errNoKeys means that there is nothing to sign calls with.
var errNoKeys = errors.New("no keys for the storage")

// Env is where the keys of AWS's clients are looked for.
type Env struct {
	Getenv func(string) string
}

// key returns the keys that the environment has, or those of a profile. They are looked up each time, for those that are lent
// are replaced in their file.
func (e Env) key(region string) (awsauth.Key, error) {
	key := awsauth.Key{
		AccessKey: e.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: e.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: e.Getenv("AWS_SESSION_TOKEN"), Region: region,
	}
	if key.AccessKey != "" && key.SecretKey != "" {
		return key, nil
	}
	path := firstOf(e.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(e.Getenv("HOME"), ".aws", "credentials"))
	text, err := os.ReadFile(path)
	if err != nil {
		return key, fmt.Errorf("%w: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set, nor is there a profile: %w", errNoKeys, err)
	}
	profile := firstOf(e.Getenv("AWS_PROFILE"), "default")
	values := awsauth.ParseProfiles(string(text))[profile]
	key.AccessKey, key.SecretKey = values["aws_access_key_id"], values["aws_secret_access_key"]
	key.SessionToken = values["aws_session_token"]
	if key.AccessKey == "" || key.SecretKey == "" {
		return key, fmt.Errorf("%w: profile %s of %s has none", errNoKeys, profile, path)
	}
	return key, nil
}
