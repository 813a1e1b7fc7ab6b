package pve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"

	"hive-test/pkg/sim/sshd"
)

// certificateLife is how long the simulator's certificates are valid.
const certificateLife = 10 * 365 * 24 * time.Hour

// portFile remembers the ports, so that a restarted simulator is found where it was.
type portFile struct {
	API int            `json:"api"`
	SSH map[string]int `json:"ssh"`
}

// keyFiles are the simulator's own certificates, keys and ports.
type keyFiles struct {
	dir           string
	caFile        string
	cert          tls.Certificate
	clientKeyFile string
	clientKey     ssh.PublicKey
	hostKeys      map[string]ssh.Signer
	ports         *portFile
}

func loadKeys(dir string, nodes []*node) (*keyFiles, error) {
	k := &keyFiles{dir: dir, caFile: filepath.Join(dir, "ca.pem"), hostKeys: map[string]ssh.Signer{}}
	if err := k.loadCertificate(); err != nil {
		return nil, err
	}
	k.clientKeyFile = filepath.Join(dir, "id_ed25519")
	client, err := sshd.LoadKey(k.clientKeyFile, "hive-sim")
	if err != nil {
		return nil, err
	}
	k.clientKey = client.PublicKey()
	for _, n := range nodes {
		if k.hostKeys[n.Name], err = sshd.LoadKey(
			filepath.Join(dir, "ssh_host_"+n.Name+"_ed25519"), "hive-sim",
		); err != nil {
			return nil, err
		}
	}
	k.ports = &portFile{SSH: map[string]int{}}
	b, err := os.ReadFile(k.portsFile())
	if err == nil {
		err = json.Unmarshal(b, k.ports)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the simulator's ports: %w", err)
	}
	return k, nil
}

func (k *keyFiles) portsFile() string { return filepath.Join(k.dir, "ports.json") }

func (k *keyFiles) savePorts() error {
	if err := renameio.WriteFile(k.portsFile(), mustJSON(k.ports), 0o600); err != nil {
		return fmt.Errorf("write the simulator's ports: %w", err)
	}
	return nil
}

// loadCertificate makes a CA and a server certificate for 127.0.0.1, ::1 and localhost once.
func (k *keyFiles) loadCertificate() error {
	certFile, keyFile := filepath.Join(k.dir, "server.pem"), filepath.Join(k.dir, "server-key.pem")
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		if _, err = os.Stat(k.caFile); err == nil {
			k.cert = cert
			return nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the simulator's certificate: %w", err)
	}
	if err := makeCertificates(k.caFile, certFile, keyFile); err != nil {
		return fmt.Errorf("make the simulator's certificate: %w", err)
	}
	if k.cert, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return fmt.Errorf("read the simulator's certificate: %w", err)
	}
	return nil
}

func makeCertificates(caFile, certFile, keyFile string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "Proxmox VE simulator CA", Organization: []string{"hive-sim"}},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(certificateLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, MaxPathLenZero: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The CA's key is not kept: it signs one certificate.
	for _, f := range []struct {
		file, kind string
		der        []byte
		mode       os.FileMode
	}{
		{keyFile, "PRIVATE KEY", keyDER, 0o600},
		{certFile, "CERTIFICATE", leafDER, 0o600},
		{caFile, "CERTIFICATE", caDER, 0o644},
	} {
		if err := renameio.WriteFile(
			f.file, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode,
		); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint is the server certificate's SHA-256 as PVE writes it.
func (k *keyFiles) fingerprint() string {
	sum := sha256.Sum256(k.cert.Certificate[0])
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
