import { getToolName } from 'ai';
import { useState } from 'react';

const words = {
  'input-streaming': 'is being asked for',
  'input-available': 'runs',
  'approval-requested': 'waits for you',
  'approval-responded': 'answered',
  'output-available': 'done',
  'output-error': 'failed',
  'output-denied': 'denied',
};

export function Tool({ part, chat }) {
  const name = getToolName(part);
  const asks = name === 'ask_user' && part.state === 'input-available';
  const running = part.preliminary || (part.state === 'input-available' && !asks);
  return (
    <div className={`tool ${part.state}${running ? ' running' : ''}`}>
      <div className="head">
        <strong>{name}</strong>
        <span>{asks ? 'waits for you' : running ? 'runs' : words[part.state]}</span>
      </div>
      {part.input !== undefined && <Json value={part.input} />}
      {part.state === 'approval-requested' && <Approval part={part} chat={chat} />}
      {asks && <Answer part={part} chat={chat} />}
      {part.output !== undefined && <Json value={part.output} />}
      {part.errorText && <p className="failure">{part.errorText}</p>}
      {part.approval?.reason && <p className="reason">“{part.approval.reason}”</p>}
    </div>
  );
}

function Json({ value }) {
  return <pre>{typeof value === 'string' ? value : JSON.stringify(value, null, 1)}</pre>;
}

function Approval({ part, chat }) {
  const [reason, setReason] = useState('');
  const answer = approved =>
    chat.addToolApprovalResponse({
      id: part.approval.id,
      approved,
      reason: reason.trim() || undefined,
    });
  return (
    <div className="ask">
      <input
        value={reason}
        placeholder="Why (optional)"
        aria-label="Reason"
        onChange={event => setReason(event.target.value)}
      />
      <button onClick={() => answer(false)}>Deny</button>
      <button className="primary" onClick={() => answer(true)}>
        Approve
      </button>
    </div>
  );
}

// The tool `ask_user` runs here, in the page: its result is what the user types.
function Answer({ part, chat }) {
  const [text, setText] = useState('');
  const submit = event => {
    event.preventDefault();
    chat.addToolOutput({ tool: 'ask_user', toolCallId: part.toolCallId, output: text });
  };
  return (
    <form className="ask" onSubmit={submit}>
      <input
        value={text}
        placeholder={part.input?.question ?? 'Your answer'}
        aria-label="Answer"
        onChange={event => setText(event.target.value)}
      />
      <button className="primary" disabled={!text.trim()}>
        Answer
      </button>
    </form>
  );
}
