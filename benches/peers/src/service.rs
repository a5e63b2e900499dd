//! The canonical turn as a virtual object: a model call, a tool call, a model call.

use std::net::{Ipv4Addr, SocketAddr};

use restate_sdk::prelude::*;

/// Name under which the ingress knows the object.
pub(crate) const OBJECT: &str = "Session";

struct Session;

#[object]
impl Session {
    #[handler]
    async fn turn(&self, ctx: ObjectContext<'_>, text: String) -> Result<String, HandlerError> {
        let call = ctx
            .run(|| async move { Ok(format!("call lookup for {text}")) })
            .name("model")
            .await?;
        let result = ctx
            .run(|| async move { Ok(format!("result of {call}")) })
            .name("tool")
            .await?;
        let answer = ctx
            .run(|| async move { Ok(format!("answer from {result}")) })
            .name("model")
            .await?;
        Ok(answer)
    }
}

/// Serves the object until the process is ended.
pub(crate) async fn serve(port: u16) {
    HttpServer::new(Endpoint::builder().bind(Session).build())
        .listen_and_serve(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await;
}
