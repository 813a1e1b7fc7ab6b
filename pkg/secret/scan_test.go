package secret

import (
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for line, want := range map[string]string{
		"AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQXYZ9": "the private key of age",
		"-----BEGIN OPENSSH PRIVATE KEY-----":                                    "a private key",
		"token: root@pam!ci=0badc0de-1111-2222-3333-444455556666":                "a token of Proxmox VE",
		"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLF":                                 "an AWS access key",
		"repo: https://ci:gh0Q7x@example.net/hive.git":                           "a password in a URL",
		"client_secret: Jq8~vTz4kQ1x":                                            "a value that looks secret, by its name,",
		`  "db_password": "x9Kq2mVbT4"`:                                          "a value that looks secret, by its name,",
		"export API_KEY=0f9a8b7c6d5e4f3a":                                        "a value that looks secret, by its name,",

		"-----BEGIN PUBLIC KEY-----":                                     "",
		"age1w4wp0dvqxkvgcyt8c3s47xlp4gdu62tk78epyazznrv5jkz7cfmqxva2q3": "",
		"token: hive@pve!ci=00000000-0000-0000-0000-000000000000":        "",
		"token: user@realm!name=secret":                                  "",
		"token: sops:secrets.sops.yaml#proxmox.token":                    "",
		"password: env:DB_PASSWORD_OF_CI1":                               "",
		"secret: ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]":    "",
		"token_file: ./hive-test.token":                                  "",
		"password: ${PASSWORD_FROM_CI_1}":                                "",
		"password: changeme":                                             "",
		"repo: https://user:password@example.net/x":                      "",
		"endpoint: https://pve1:8006/api2/json@x":                        "",
		"secrets_dir: /var/lib/secrets/of-ci-1":                          "",
		"node_count: 3":                                                  "",
	} {
		found := Scan("first line\n"+line+"\n", ScanOptions{Keyed: true})
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%s is taken for %s", line, found[0].What)
		case want != "" && (len(found) != 1 || found[0].What != want || found[0].Line != 2 || found[0].Fix == ""):
			t.Errorf("%s: %+v, want %s", line, found, want)
		}
		for _, f := range found {
			if _, value, cut := strings.Cut(line, "="); cut && len(value) > 8 && strings.Contains(f.What+f.Fix, value) {
				t.Errorf("the secret is shown: %+v", f)
			}
		}
	}
	if found := Scan("token := newToken8x(seed4711)\nmy_secret: Jq8~vTz4kQ1x\n", ScanOptions{}); len(found) > 0 {
		t.Errorf("names count in source code: %+v", found)
	}
}

func TestHoldsSettings(t *testing.T) {
	for path, want := range map[string]bool{"a/b.yaml": true, ".env": true, ".env.ci": true, "x.tfvars": true, "main.go": false, "README.md": false} {
		if HoldsSettings(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestRecipientsFor(t *testing.T) {
	_, dir, key := home(t)
	_, other, _ := NewKey("")
	put(t, dir+"/"+RulesFile, []byte(`creation_rules:
  - {path_regex: '\.ci\.yaml$', age: "`+key.Text+", "+other+`"}
  - {path_regex: 'list\.yaml$', age: [`+key.Text+`]}
  - {path_regex: 'kms\.yaml$', age: `+key.Text+`, kms: "arn:x"}
  - {path_regex: 'none\.yaml$'}
  - {path_regex: 'secret\.yaml$', age: AGE-SECRET-KEY-1XX}
`))
	for path, want := range map[string]int{"deep/down/a.ci.yaml": 2, "list.yaml": 1} {
		if got, err := RecipientsFor(dir + "/" + path); len(got) != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"x.yaml": "no rule is for x.yaml", "kms.yaml": "only the program sops", "none.yaml": "names no public key", "secret.yaml": "no public key of age",
	} {
		if _, err := RecipientsFor(dir + "/" + path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "KEY-1XX") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, file := range []string{"a.sops.yaml", "ci.sops.env", "other.json"} {
		put(t, dir+"/made/"+RulesFile, NewRules(file, key.Text))
		if got, err := RecipientsFor(dir + "/made/" + file); len(got) != 1 || err != nil {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
}
