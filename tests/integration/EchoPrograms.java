// An echo server in Java, which waits by a Selector, and a client that verifies what comes back, with threads that block.
//
//     EchoPrograms server PORT
//     EchoPrograms client HOST PORT CONNECTIONS QUESTIONS PAUSE
//
// PAUSE is how long a connection rests behind its tenth question, in ms.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class EchoPrograms {
  private static final int AT_ONCE = 20;
  private static final int[] SIZES = {1, 10, 700, 4096, 33000, 150000};

  // While something is to be sent back, nothing more is read.
  private static void echo(SelectionKey key) throws IOException {
    SocketChannel channel = (SocketChannel) key.channel();
    ByteBuffer held = (ByteBuffer) key.attachment();
    if (key.isReadable()) {
      held.clear();
      int bytes = channel.read(held);
      held.flip();
      if (bytes < 0) {
        channel.shutdownOutput();
        channel.close();
        return;
      }
    }
    channel.write(held);
    key.interestOps(held.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
  }

  private static void serve(int port) throws IOException {
    Selector selector = Selector.open();
    ServerSocketChannel listener = ServerSocketChannel.open();
    listener.bind(new InetSocketAddress(port), 128);
    listener.configureBlocking(false);
    listener.register(selector, SelectionKey.OP_ACCEPT);
    while (true) {
      selector.select();
      for (SelectionKey key : selector.selectedKeys()) {
        if (key.isAcceptable()) {
          SocketChannel channel = listener.accept();
          channel.configureBlocking(false);
          channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(65536));
        } else {
          echo(key);
        }
      }
      selector.selectedKeys().clear();
    }
  }

  private static byte[] pieces(Random random, int count) {
    byte[] all = new byte[0];
    for (int i = 0; i < count; ++i) {
      byte[] piece = new byte[SIZES[random.nextInt(SIZES.length)]];
      random.nextBytes(piece);
      int old = all.length;
      all = Arrays.copyOf(all, old + piece.length);
      System.arraycopy(piece, 0, all, old, piece.length);
    }
    return all;
  }

  // Question and answer, then everything at once, half-closed.
  private static Void talk(String host, int port, int number, int questions, int pause) throws Exception {
    Random random = new Random(number);
    try (Socket socket = new Socket(host, port)) {
      InputStream in = socket.getInputStream();
      OutputStream out = socket.getOutputStream();
      for (int i = 0; i < questions; ++i) {
        if (i == 10) {
          Thread.sleep(pause);
        }
        byte[] question = pieces(random, 1);
        out.write(question);
        if (!Arrays.equals(question, in.readNBytes(question.length))) {
          throw new IOException("an answer is not the question");
        }
      }
      byte[] rest = pieces(random, 10);
      Thread sender = new Thread(() -> {
        try {
          out.write(rest);
          socket.shutdownOutput();
        } catch (IOException error) {
          System.out.println("sender: " + error);
        }
      });
      sender.start();
      byte[] got = in.readAllBytes();
      sender.join();
      if (!Arrays.equals(rest, got)) {
        throw new IOException("the rest, " + got.length + " bytes, is not what was sent");
      }
      if (in.read() != -1) {
        throw new IOException("something comes behind the end");
      }
    }
    return null;
  }

  private static void call(String host, int port, int connections, int questions, int pause) throws Exception {
    ExecutorService callers = Executors.newFixedThreadPool(AT_ONCE);
    ArrayList<Future<Void>> talks = new ArrayList<>();
    for (int i = 0; i < connections; ++i) {
      int number = i;
      talks.add(callers.submit(() -> talk(host, port, number, questions, pause)));
    }
    callers.shutdown();
    for (Future<Void> talk : talks) {
      talk.get();
    }
    System.out.println(connections + " connections");
  }

  public static void main(String[] arguments) {
    try {
      if (arguments[0].equals("server")) {
        serve(Integer.parseInt(arguments[1]));
      } else {
        int[] numbers = Arrays.stream(arguments).skip(2).mapToInt(Integer::parseInt).toArray();
        call(arguments[1], numbers[0], numbers[1], numbers[2], numbers[3]);
      }
    } catch (Exception error) {
      System.out.println(error);
      System.exit(1);
    }
  }
}
