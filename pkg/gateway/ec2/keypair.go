package ec2

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/md5" //nolint:gosec // a fingerprint that AWS computes so
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // a fingerprint that AWS computes so
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/gateway/wire"
)

// Bits of RSA keys: of those that are made here, and of those that are taken.
const (
	usualKeyBits = 2048
	leastKeyBits = 1024
	mostKeyBits  = 4096
)

// publicKeyMember holds a key pair's public key as OpenSSH writes it. It is told only where it is asked for.
const publicKeyMember = "_publicKey"

func (s *Service) keyActions() map[string]handler {
	return map[string]handler{
		"CreateKeyPair": s.createKeyPair, "ImportKeyPair": s.importKeyPair, "DeleteKeyPair": s.deleteKeyPair,
		"DescribeKeyPairs": s.describeKeyPairs,
	}
}

// createKeyPair makes a key pair, and answers with its private key, which is kept nowhere.
func (s *Service) createKeyPair(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := named("KeyName", in.Text("KeyName")); err != nil {
		return nil, err
	}
	if format := in.Text("KeyFormat"); format != "" && format != "pem" {
		return nil, invalid("Value (%s) for parameter KeyFormat is invalid. Only pem is supported.", format)
	}
	key, err := newKey(in.Text("KeyType"))
	if err != nil {
		return nil, err
	}
	pair, err := s.keepKey(ctx, in, key.public, key.fingerprint)
	if err != nil {
		return nil, err
	}
	pair["KeyMaterial"] = key.material
	return pair, nil
}

// importKeyPair keeps the public key of a key pair of somebody else's.
func (s *Service) importKeyPair(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := named("KeyName", in.Text("KeyName")); err != nil {
		return nil, err
	}
	if err := require(in, "PublicKeyMaterial"); err != nil {
		return nil, err
	}
	public, err := readPublicKey(in.Text("PublicKeyMaterial"))
	if err != nil {
		return nil, err
	}
	fingerprint, err := publicFingerprint(public)
	if err != nil {
		return nil, err
	}
	return s.keepKey(ctx, in, public, fingerprint)
}

// keepKey adds a key pair, and returns what those who have made it are told.
func (s *Service) keepKey(
	ctx context.Context, in wire.Object, key ssh.PublicKey, fingerprint string,
) (wire.Object, error) {
	name := in.Text("KeyName")
	tags, err := tagsFor(in, keyKind().bucket)
	if err != nil {
		return nil, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	pair := wire.Object{
		"KeyPairId": s.namedID(keyKind(), name), "KeyName": name, "KeyFingerprint": fingerprint, "Tags": tags,
		"KeyType":    strings.TrimPrefix(key.Type(), "ssh-"),
		"CreateTime": s.Now().UTC().Format("2006-01-02T15:04:05.000Z"), publicKeyMember: line + " " + name,
	}
	err = s.createNamed(ctx, keyKind(), pair, wire.Errorf(
		"InvalidKeyPair.Duplicate", "The keypair '%s' already exists.", name))
	return wire.Object{
		"KeyPairId": pair["KeyPairId"], "KeyName": name, "KeyFingerprint": fingerprint, "Tags": tags,
	}, err
}

func (s *Service) describeKeyPairs(ctx context.Context, in wire.Object) (wire.Object, error) {
	answer, err := s.describeNamed(ctx, keyKind(), in, "KeyNames", "KeyName")
	if err != nil || !in.Bool("IncludePublicKey") {
		return answer, err
	}
	pairs := answer.Objects(keyKind().list)
	for i, pair := range pairs {
		pairs[i] = pair.Clone()
		pairs[i]["PublicKey"] = pair[publicKeyMember]
	}
	answer[keyKind().list] = wire.List(pairs...)
	return answer, nil
}

// deleteKeyPair deletes a key pair. One that is not there is no error.
func (s *Service) deleteKeyPair(ctx context.Context, in wire.Object) (wire.Object, error) {
	id := in.Text("KeyPairId")
	switch {
	case in.Has("KeyName"):
		id = s.namedID(keyKind(), in.Text("KeyName"))
	case id == "":
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain the parameter KeyName or KeyPairId")
	}
	err := s.remove(ctx, keyKind(), id, nil)
	if failure, ok := errors.AsType[*wire.Error](err); ok && failure.Code == keyKind().code {
		return returned(), nil
	}
	return wire.Object{"Return": true, "KeyPairId": id}, err
}

// newPair is a key pair that was made here.
type newPair struct {
	public                ssh.PublicKey
	material, fingerprint string
}

func newKey(sort string) (newPair, error) {
	switch sort {
	case "", "rsa":
		return newRSA()
	case "ed25519":
		return newEd25519()
	}
	return newPair{}, invalid("Value (%s) for parameter KeyType is invalid. Valid types are rsa and ed25519.", sort)
}

// newRSA makes a key whose fingerprint is the SHA-1 of the private key as PKCS #8, and whose material is PKCS #1.
func newRSA() (newPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, usualKeyBits)
	if err != nil {
		return newPair{}, err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return newPair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return newPair{}, err
	}
	sum := sha1.Sum(der) //nolint:gosec // as above
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return newPair{public, string(pem.EncodeToMemory(block)), colons(sum[:])}, nil
}

func newEd25519() (newPair, error) {
	key, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return newPair{}, err
	}
	public, err := ssh.NewPublicKey(key)
	if err != nil {
		return newPair{}, err
	}
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(private), "")
	if err != nil {
		return newPair{}, err
	}
	fingerprint, err := publicFingerprint(public)
	return newPair{public, string(pem.EncodeToMemory(block)), fingerprint}, err
}

// publicFingerprint is that of a key of which only the public part is known: the MD5 of the DER form for RSA, and the
// SHA-256 of OpenSSH's form for the others.
func publicFingerprint(key ssh.PublicKey) (string, error) {
	if key.Type() != ssh.KeyAlgoRSA {
		sum := sha256.Sum256(key.Marshal())
		return base64.StdEncoding.EncodeToString(sum[:]), nil
	}
	inner, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return "", badKey()
	}
	der, err := x509.MarshalPKIXPublicKey(inner.CryptoPublicKey())
	sum := md5.Sum(der) //nolint:gosec // as above
	return colons(sum[:]), err
}

// colons writes bytes as hex digits, two by two.
func colons(sum []byte) string {
	pairs := make([]string, len(sum))
	for i := range sum {
		pairs[i] = hex.EncodeToString(sum[i : i+1])
	}
	return strings.Join(pairs, ":")
}

func badKey() error {
	return wire.Errorf("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
}

// readPublicKey reads a key in one of the forms that AWS takes: a line of OpenSSH, DER in base64, or RFC 4716.
func readPublicKey(material string) (ssh.PublicKey, error) {
	text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(material), ""))
	if err != nil {
		return nil, badKey()
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		key, err = readDER(text)
	}
	if err != nil {
		key, err = readRFC4716(string(text))
	}
	if err != nil || !taken(key) {
		return nil, badKey()
	}
	return key, nil
}

// taken reports whether a key is of a type and length that AWS takes.
func taken(key ssh.PublicKey) bool {
	switch key.Type() {
	case ssh.KeyAlgoED25519:
		return true
	case ssh.KeyAlgoRSA:
		inner, isCrypto := key.(ssh.CryptoPublicKey)
		if !isCrypto {
			return false
		}
		public, isRSA := inner.CryptoPublicKey().(*rsa.PublicKey)
		return isRSA && public.N.BitLen() >= leastKeyBits && public.N.BitLen() <= mostKeyBits
	}
	return false
}

// readDER reads DER in base64, as PEM or without its first and last line.
func readDER(text []byte) (ssh.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(text), nil)))
	if block, _ := pem.Decode(text); block != nil {
		der, err = block.Bytes, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(key)
}

// readRFC4716 reads a key between the lines of SSH2, of which those with a colon are about it.
func readRFC4716(text string) (ssh.PublicKey, error) {
	_, text, begins := strings.Cut(text, "---- BEGIN SSH2 PUBLIC KEY ----")
	text, _, ends := strings.Cut(text, "---- END SSH2 PUBLIC KEY ----")
	if !begins || !ends {
		return nil, badKey()
	}
	var body strings.Builder
	header := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		header = header || strings.Contains(line, ":")
		if !header {
			body.WriteString(line)
		}
		header = header && strings.HasSuffix(line, `\`) // it goes on in the next line
	}
	blob, err := base64.StdEncoding.DecodeString(body.String())
	if err != nil {
		return nil, err
	}
	return ssh.ParsePublicKey(blob)
}
