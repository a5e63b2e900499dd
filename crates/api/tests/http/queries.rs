//! Every route of the description refuses what it does not describe.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_api::document;

use crate::world::{World, request};

/// A route of the description.
struct Route {
    method: Method,
    /// With values in place of its parameters.
    path: String,
    /// Names that it takes in its query string.
    parameters: Vec<String>,
}

fn routes() -> Vec<Route> {
    let document = serde_json::to_value(document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let named = |place: &str| -> Vec<String> {
                let parameters = operation["parameters"].as_array();
                let there = parameters.into_iter().flatten();
                let there = there.filter(|parameter| parameter["in"] == place);
                there
                    .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                    .collect()
            };
            let path = named("path").iter().fold(path.clone(), |path, name| {
                let value = match name.as_str() {
                    "call" => "1-2-0",
                    "approval" => "approval-1-2-0",
                    _ => "s1",
                };
                path.replace(&format!("{{{name}}}"), value)
            });
            routes.push(Route {
                method: method.to_uppercase().parse().unwrap(),
                path,
                parameters: named("query"),
            });
        }
    }
    routes
}

impl Route {
    async fn ask(&self, world: &World, query: &str) -> (StatusCode, Value) {
        let body = [Method::POST, Method::PUT]
            .contains(&self.method)
            .then(|| json!({}));
        let path = format!("{}?{query}", self.path);
        let answer = world.send(request(self.method.clone(), &path, body)).await;
        (answer.status, answer.body)
    }
}

#[tokio::test]
async fn every_route_refuses_a_parameter_that_it_does_not_describe() {
    let world = World::new().await;
    let routes = routes();
    assert!(routes.len() > 20, "{}", routes.len());
    for route in routes {
        let (status, body) = route.ask(&world, "zzzzzzzz=1").await;
        let told = (status.as_u16(), &body["code"], &body["field"]);
        let expected = (400, &json!("query_invalid"), &json!("zzzzzzzz"));
        assert_eq!(told, expected, "{} {}", route.method, route.path);
        for name in &route.parameters {
            let typo = format!("{name}x");
            let (status, body) = route.ask(&world, &format!("{typo}=1")).await;
            let detail =
                format!("the query parameter `{typo}` is not known here; did you mean `{name}`?");
            let told = (status.as_u16(), &body["detail"]);
            assert_eq!(
                told,
                (400, &json!(detail)),
                "{} {}",
                route.method,
                route.path
            );
        }
    }
}

#[tokio::test]
async fn every_route_takes_the_parameters_that_it_describes() {
    let world = World::new().await;
    for route in routes() {
        for name in &route.parameters {
            // Whatever its value must be, the name is known.
            let (_, body) = route.ask(&world, &format!("{name}=%00")).await;
            let detail = body["detail"].as_str().unwrap_or_default();
            let path = &route.path;
            assert!(!detail.contains("is not known here"), "{path}: {detail}");
        }
    }
}
