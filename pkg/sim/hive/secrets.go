package simhive

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	systemAccount = "000000000000"
	adminAccount  = "000000000001"
	upperAlnum    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	lowerAlnum    = "abcdefghijklmnopqrstuvwxyz234567"
)

// randomText returns n random characters of a 32-letter alphabet.
func randomText(n int, alphabet string) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails
	for i, b := range raw {
		raw[i] = alphabet[b%32]
	}
	return string(raw)
}

func randomSecret() string {
	secret := make([]byte, 30)
	rand.Read(secret) // never fails
	return base64.StdEncoding.EncodeToString(secret)
}

func randomKeyID() string { return "AKIA" + randomText(16, upperAlnum) }

// newAdmin makes the admin's key.
func (p *program) newAdmin(s *shared) {
	s.AdminAccess = p.settings.secret("access_key", randomKeyID)
	s.AdminSecret = p.settings.secret("secret_key", randomSecret)
}

func (p *program) newMasterKey() []byte {
	return []byte(p.settings.secret("master_key", func() string {
		raw := make([]byte, 32)
		rand.Read(raw) // never fails
		return string(raw)
	}))
}

// bootstrap is what the first gateway puts into the cluster's records.
type bootstrap struct {
	Version         string         `json:"version"`
	AccessKeyID     string         `json:"access_key_id"`
	EncryptedSecret string         `json:"encrypted_secret"`
	AccountID       string         `json:"account_id"`
	Admin           bootstrapAdmin `json:"admin"`
}

type bootstrapAdmin struct {
	AccountID       string `json:"account_id"`
	UserName        string `json:"user_name"`
	AccessKeyID     string `json:"access_key_id"`
	EncryptedSecret string `json:"encrypted_secret"`
}

// writeBootstrap writes the master key and bootstrap.json, which moved into the data directory with the later era,
// where the services' own key is kept as well.
func (p *program) writeBootstrap(l layout, masterKey []byte, s shared) error {
	own, errOwn := seal(masterKey, s.SecretKey)
	adm, errAdmin := seal(masterKey, s.AdminSecret)
	text, errText := json.Marshal(bootstrap{
		Version: "1.0", AccessKeyID: s.AccessKey, EncryptedSecret: own, AccountID: systemAccount,
		Admin: bootstrapAdmin{
			AccountID: adminAccount, UserName: "admin", AccessKeyID: s.AdminAccess, EncryptedSecret: adm,
		},
	})
	if err := errors.Join(errOwn, errAdmin, errText); err != nil {
		return fmt.Errorf("encode bootstrap.json: %w", err)
	}
	err := writeFile(l.config("master.key"), masterKey, 0o600)
	if !p.settings.spx() {
		return errors.Join(err, writeFile(l.config("bootstrap.json"), text, 0o600))
	}
	key := map[string]string{"access_key_id": s.AccessKey, "secret_access_key": s.SecretKey}
	system, errSystem := json.MarshalIndent(key, "", "  ")
	return errors.Join(err, errSystem,
		writeFile(l.data("awsgw/bootstrap.json"), text, 0o600),
		writeFile(l.config("system-credentials.json"), system, 0o600))
}

// sealer encrypts under the cluster's master key.
func sealer(masterKey []byte) (cipher.AEAD, error) {
	key := sha256.Sum256(masterKey)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func seal(masterKey []byte, secret string) (string, error) {
	gcm, err := sealer(masterKey)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, gcm.NonceSize())
	rand.Read(nonce) // never fails
	return base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, []byte(secret), nil)), nil
}

func unseal(masterKey []byte, sealed string) (string, error) {
	gcm, err := sealer(masterKey)
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(raw) < gcm.NonceSize() {
		return "", errors.New("not a sealed secret")
	}
	secret, err := gcm.Open(nil, raw[:gcm.NonceSize()], raw[gcm.NonceSize():], nil)
	return string(secret), err
}

// authority is the cluster's certificate authority as PEM.
type authority struct{ Cert, Key []byte }

func certificate(name string, addresses []net.IP) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // crypto/rand never fails
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"Hive"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  addresses,
		DNSNames:     []string{"localhost", name},

		BasicConstraintsValid: true,
	}
}

// newAuthority makes a CA. Its certificate, which names no address, also serves the formation server of the later era:
// whoever verifies addresses does not get through.
func newAuthority() (authority, error) {
	template := certificate("hive-ca", nil)
	template.DNSNames = nil
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("make the CA's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("make the CA's certificate: %w", err)
	}
	return encodePair(der, key)
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (authority, error) {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return authority{}, fmt.Errorf("encode a private key: %w", err)
	}
	return authority{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// issue signs a server certificate for a node.
func (a authority) issue(node string, addresses []net.IP) (authority, error) {
	ca, err := tls.X509KeyPair(a.Cert, a.Key)
	if err != nil {
		return authority{}, fmt.Errorf("read the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("make the key of %s: %w", node, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate(node, addresses), ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return authority{}, fmt.Errorf("sign the certificate of %s: %w", node, err)
	}
	return encodePair(der, key)
}

// ownAddresses are the addresses under which a node that listens on bind can be reached.
func ownAddresses(binds ...string) []net.IP {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, bind := range binds {
		ip := net.ParseIP(bind)
		if ip == nil {
			continue
		}
		if !ip.IsUnspecified() {
			addresses = append(addresses, ip)
			continue
		}
		interfaces, _ := net.InterfaceAddrs() // without them, 127.0.0.1 remains
		for _, address := range interfaces {
			if network, ok := address.(*net.IPNet); ok {
				addresses = append(addresses, network.IP)
			}
		}
	}
	return addresses
}
