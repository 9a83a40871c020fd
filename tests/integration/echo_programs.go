// An echo server in Go, and a client that verifies what comes back.
//
//	echo_programs server PORT
//	echo_programs client HOST PORT CONNECTIONS QUESTIONS
package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
)

const atOnce = 20

func serve(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(connection, connection)
			connection.Close()
		}()
	}
}

func pieces(random *rand.Rand, count int) (all []byte) {
	sizes := []int{1, 10, 700, 4096, 33000, 150000}
	for i := 0; i < count; i++ {
		piece := make([]byte, sizes[random.Intn(len(sizes))])
		random.Read(piece)
		all = append(all, piece...)
	}
	return all
}

// Question and answer, then everything at once, half-closed.
func talk(address string, number int64, questions int) error {
	random := rand.New(rand.NewSource(number))
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	for i := 0; i < questions; i++ {
		question := pieces(random, 1)
		answer := make([]byte, len(question))
		if _, err = connection.Write(question); err != nil {
			return err
		}
		if _, err = io.ReadFull(connection, answer); err != nil {
			return err
		}
		if !bytes.Equal(question, answer) {
			return fmt.Errorf("an answer is not the question")
		}
	}
	rest := pieces(random, 10)
	go func() {
		connection.Write(rest)
		connection.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(connection)
	if err == nil && !bytes.Equal(rest, got) {
		err = fmt.Errorf("the rest, %d bytes, is not what was sent", len(got))
	}
	return err
}

func call(host, port string, connections, questions int) error {
	numbers := make(chan int64)
	results := make(chan error)
	for i := 0; i < atOnce; i++ {
		go func() {
			for number := range numbers {
				results <- talk(net.JoinHostPort(host, port), number, questions)
			}
		}()
	}
	go func() {
		for i := 0; i < connections; i++ {
			numbers <- int64(i)
		}
	}()
	for i := 0; i < connections; i++ {
		if err := <-results; err != nil {
			return err
		}
	}
	fmt.Println(connections, "connections")
	return nil
}

func main() {
	var err error
	if os.Args[1] == "server" {
		err = serve(os.Args[2])
	} else {
		connections, _ := strconv.Atoi(os.Args[4])
		questions, _ := strconv.Atoi(os.Args[5])
		err = call(os.Args[2], os.Args[3], connections, questions)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
