import { useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses as approvalsAnswered,
  lastAssistantMessageIsCompleteWithToolCalls as toolsAnswered,
} from 'ai';
import { useEffect, useRef, useState } from 'react';
import { Message } from './message.jsx';

const ideas = [
  'get_weather in Lisbon',
  'write_report about Lisbon',
  'refund_order please',
  'ask_user something',
];

export function Chat({ api, id, messages: stored }) {
  const chat = useChat({
    id,
    messages: stored,
    resume: true,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: options => approvalsAnswered(options) || toolsAnswered(options),
  });
  const { messages, status, error } = chat;
  const busy = status === 'submitted' || status === 'streaming';
  const end = useRef(null);
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' });
  }, [messages]);

  // Closing the stream does not stop the turn: that is a request of its own.
  const stop = async () => {
    await fetch(`${api}/${id}/stop`, { method: 'POST' });
    chat.stop();
  };

  return (
    <main>
      <header>
        <h1>Steadfast</h1>
        <a href={location.pathname}>New chat</a>
      </header>
      <section className="messages" aria-live="polite">
        {messages.length === 0 && <Welcome send={chat.sendMessage} />}
        {messages.map(message => (
          <Message key={message.id} message={message} chat={chat} />
        ))}
        {status === 'submitted' && <p className="thinking" aria-label="waiting" />}
        {error && (
          <p className="notice" role="alert">
            {error.message}{' '}
            <button onClick={() => chat.resumeStream()}>Go on</button>
          </p>
        )}
        <div ref={end} />
      </section>
      <Compose busy={busy} send={chat.sendMessage} stop={stop} />
    </main>
  );
}

function Welcome({ send }) {
  return (
    <div className="welcome">
      <p>Say something, or try one of these. Reload the page whenever you like.</p>
      {ideas.map(text => (
        <button key={text} onClick={() => send({ text })}>
          {text}
        </button>
      ))}
    </div>
  );
}

function Compose({ busy, send, stop }) {
  const [text, setText] = useState('');
  const submit = event => {
    event.preventDefault();
    if (!text.trim() || busy) return;
    send({ text });
    setText('');
  };
  return (
    <form className="compose" onSubmit={submit}>
      <input
        autoFocus
        value={text}
        placeholder="Message"
        aria-label="Message"
        onChange={event => setText(event.target.value)}
      />
      {busy ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button className="primary" disabled={!text.trim()}>
          Send
        </button>
      )}
    </form>
  );
}
