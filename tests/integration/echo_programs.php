<?php
// An echo server in PHP, and a client that verifies what comes back; both wait by stream_select.
//
//     echo_programs.php server PORT
//     echo_programs.php client HOST PORT CONNECTIONS QUESTIONS PAUSE
//
// PAUSE is how long all rest, in ms, while connections have had their tenth answers.

const AT_ONCE = 20;
const SIZES = [1, 10, 700, 4096, 33000, 150000];

// A warning is an error, but for those of calls that say by their result what is wrong.
set_error_handler(function ($level, $text, $file, $line) {
    if (error_reporting() & $level) {
        echo "$text, line $line\n";
        exit(1);
    }
});

// A connection, with what it has to send.
class Connection
{
    public string $unsent = '';
    public bool $ended = false;

    public function __construct(public $stream)
    {
        stream_set_blocking($stream, false);
    }

    public function send(): void
    {
        $sent = fwrite($this->stream, $this->unsent);
        $this->unsent = substr($this->unsent, (int) $sent);
    }

    public function receive(): string
    {
        $piece = fread($this->stream, 65536);
        $this->ended = $piece === '' && feof($this->stream);
        return (string) $piece;
    }
}

// Waits for what is there to be read, and for room where something is to be sent: the connections that are ready.
function wait(array $reading, array $sending, ?int $seconds): array
{
    $streams = fn($connections) => array_map(fn($each) => $each->stream, $connections);
    [$readable, $writable, $none] = [$streams($reading), $streams($sending), null];
    if (!stream_select($readable, $writable, $none, $seconds)) {
        echo "nothing happens any more\n";
        exit(1);
    }
    return [array_intersect_key($reading, $readable), array_intersect_key($sending, $writable)];
}

function serve(int $port): void
{
    $context = stream_context_create(['socket' => ['backlog' => 128]]);
    $flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
    $listener = new Connection(stream_socket_server("tcp://0.0.0.0:$port", $code, $text, $flags, $context));
    $connections = [];
    while (true) {
        $sending = array_filter($connections, fn($each) => $each->unsent !== '');
        $reading = array_diff_key($connections, $sending) + ['listener' => $listener];
        [$readable, $writable] = wait($reading, $sending, null);
        foreach ($readable as $key => $each) {
            if ($key === 'listener') {
                $stream = @stream_socket_accept($listener->stream, 0);
                if ($stream) {
                    $connections[] = new Connection($stream);
                }
                continue;
            }
            $each->unsent = $each->receive();
            if ($each->ended) {
                fclose($each->stream);
                unset($connections[$key]);
            }
        }
        foreach ($writable as $each) {
            $each->send();
        }
    }
}

// Question and answer, then everything at once, half-closed: what one connection is to send and get.
class Talk extends Connection
{
    private string $expected = '';
    private bool $last = false;
    private int $asked = 0;

    public function __construct(string $host, int $port, private int $questions, private int $pause)
    {
        parent::__construct(stream_socket_client("tcp://$host:$port"));
        $this->ask();
    }

    private function ask(): void
    {
        if ($this->asked === 10) {
            usleep(intdiv(1000 * $this->pause, AT_ONCE));
        }
        $this->last = $this->asked++ === $this->questions;
        for ($i = $this->last ? 10 : 1; $i > 0; --$i) {
            $this->unsent .= random_bytes(SIZES[array_rand(SIZES)]);
        }
        $this->expected = $this->unsent;
    }

    public function send(): void
    {
        parent::send();
        if ($this->last && $this->unsent === '') {
            stream_socket_shutdown($this->stream, STREAM_SHUT_WR);
        }
    }

    // What is wrong with what has come, or nothing.
    public function answered(): string
    {
        $piece = $this->receive();
        if (!str_starts_with($this->expected, $piece)) {
            return 'what came back is not what was sent';
        }
        $this->expected = substr($this->expected, strlen($piece));
        if ($this->ended && (!$this->last || $this->expected !== '')) {
            return 'it ended too early';
        }
        if (!$this->last && $this->expected === '' && $this->unsent === '') {
            $this->ask();
        }
        return '';
    }
}

function call(string $host, int $port, int $connections, int $questions, int $pause): int
{
    $talks = [];
    for ($begun = 0; $begun < $connections || $talks;) {
        for (; $begun < $connections && count($talks) < AT_ONCE; ++$begun) {
            $talks[] = new Talk($host, $port, $questions, $pause);
        }
        [$readable, $writable] = wait($talks, array_filter($talks, fn($each) => $each->unsent !== ''), 30);
        foreach ($writable as $each) {
            $each->send();
        }
        foreach ($readable as $key => $each) {
            $wrong = $each->answered();
            if ($wrong !== '') {
                echo "$wrong\n";
                return 1;
            }
            if ($each->ended) {
                fclose($each->stream);
                unset($talks[$key]);
            }
        }
    }
    echo "$connections connections\n";
    return 0;
}

if ($argv[1] === 'server') {
    serve((int) $argv[2]);
}
exit(call($argv[2], ...array_map('intval', array_slice($argv, 3))));
