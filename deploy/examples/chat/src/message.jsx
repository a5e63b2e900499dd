import { isToolUIPart } from 'ai';
import { Tool } from './tool.jsx';

export function Message({ message, chat }) {
  const { role, parts, metadata } = message;
  return (
    <article className={role}>
      {parts.map((part, index) => (
        <Part key={part.toolCallId ?? index} part={part} chat={chat} />
      ))}
      {metadata?.usage && (
        <footer>
          {metadata.model} · {metadata.usage.totalTokens} tokens
        </footer>
      )}
    </article>
  );
}

function Part({ part, chat }) {
  if (isToolUIPart(part)) return <Tool part={part} chat={chat} />;
  switch (part.type) {
    case 'text':
      return <p className="text">{part.text}</p>;
    case 'reasoning':
      return (
        <details>
          <summary>Reasoning</summary>
          {part.text}
        </details>
      );
    case 'file':
      return <p className="text">{part.filename ?? part.mediaType}</p>;
    case 'steering-message':
      return <p className="text steering">{part.parts.map(({ text }) => text).join(' ')}</p>;
    default:
      return null;
  }
}
