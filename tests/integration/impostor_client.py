"""impostor_client.py HOST PORT FILE: tells its port, asks the server again and again until FILE is there, and
fails if an answer is not the question."""
import os
import socket
import sys
import time

with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as s:
    print('port', s.getsockname()[1], flush=True)
    number = 0
    while not os.path.exists(sys.argv[3]):
        question = b'%059d\n' % number
        s.sendall(question)
        answer = b''
        while len(answer) < len(question):
            part = s.recv(len(question) - len(answer))
            if not part:
                sys.exit('the connection has ended')
            answer += part
        if answer != question:
            sys.exit(f'{answer} is no answer to {question}')
        number += 1
        time.sleep(0.002)
    print(number, 'answers')
