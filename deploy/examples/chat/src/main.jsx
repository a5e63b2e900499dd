import { StrictMode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { Chat } from './chat.jsx';
import './style.css';

const api = '/v1/agents/demo/chat';

// The chat's id stands in the address: a reload, or the same address elsewhere, goes on with it.
function chatId() {
  const url = new URL(location.href);
  if (!url.searchParams.has('chat')) {
    url.searchParams.set('chat', crypto.randomUUID());
    history.replaceState(null, '', url);
  }
  return url.searchParams.get('chat');
}

function App() {
  const [id] = useState(chatId);
  const [messages, setMessages] = useState();
  const [error, setError] = useState();
  useEffect(() => {
    const page = new AbortController();
    fetch(`${api}/${id}`, { signal: page.signal })
      .then(async answer => {
        const body = await answer.json();
        if (!answer.ok) throw new Error(body.detail);
        setMessages(body.messages);
      })
      .catch(error => page.signal.aborted || setError(error.message));
    return () => page.abort();
  }, [id]);
  if (error) return <p className="notice">The node does not answer: {error}</p>;
  return messages && <Chat api={api} id={id} messages={messages} />;
}

createRoot(document.getElementById('root')).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
